-- The origin of a plugin file: JSON, the shape `PluginSource` of the interface; none for uploads of older versions.
ALTER TABLE plugin_versions ADD COLUMN source TEXT;
