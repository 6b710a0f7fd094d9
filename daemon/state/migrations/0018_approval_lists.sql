-- Lists of approvals in one state, of all and of an organization, and the number of those that wait.
CREATE INDEX approvals_of_state ON approvals (state, id);
CREATE INDEX approvals_of_organization_by_state ON approvals (organization, state, id);
