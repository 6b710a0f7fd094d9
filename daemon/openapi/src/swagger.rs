//! Converts Swagger 2.0 to OpenAPI 3.0, which the other modules read.
//!
//! Every part is moved and none copied, so that references cannot multiply a document: a schema that several media types
//! need becomes a component of its own.

use serde_json::{Map, Value, json};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// Fields of a parameter that do not belong to the schema of its value.
const PARAMETER_FIELDS: [&str; 6] = ["name", "in", "description", "required", "deprecated", "style"];
/// Media types of one body or response that are taken.
const MEDIA_TYPES: usize = 20;

/// Converts a document.
pub(crate) fn convert(root: Value) -> Value {
    let Value::Object(mut root) = root else { return root };
    let mut converter = Converter {
        parameters: take_object(&mut root, "parameters"),
        schemas: take_object(&mut root, "definitions"),
        bodies: Map::new(),
        consumes: media_types(root.remove("consumes")),
        produces: media_types(root.remove("produces")),
    };
    let servers = servers(&mut root);
    let security_schemes = security_schemes(take_object(&mut root, "securityDefinitions"));
    let mut responses = take_object(&mut root, "responses");
    let produces = converter.produces.clone();
    responses.values_mut().for_each(|response| converter.response(response, &produces));
    let mut paths = take_object(&mut root, "paths");
    paths.values_mut().for_each(|item| converter.path_item(item));
    let Converter { parameters, schemas, bodies, .. } = converter;
    let shared = parameters.into_iter().filter(|(_, parameter)| !is_in_body(parameter));
    let shared: Map<String, Value> =
        shared.map(|(name, parameter)| (name, value_parameter(parameter))).collect();
    root.remove("swagger");
    root.insert("openapi".to_owned(), json!("3.0.3"));
    root.insert("servers".to_owned(), servers);
    root.insert("paths".to_owned(), Value::Object(paths));
    let parts = [
        ("schemas", schemas),
        ("parameters", shared),
        ("responses", responses),
        ("requestBodies", bodies),
        ("securitySchemes", security_schemes),
    ];
    let parts = parts.into_iter().map(|(name, part)| (name.to_owned(), Value::Object(part)));
    root.insert("components".to_owned(), Value::Object(parts.collect()));
    let mut root = Value::Object(root);
    rewrite(&mut root);
    root
}

fn take_object(from: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match from.remove(name) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn media_types(list: Option<Value>) -> Vec<String> {
    let list = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).take(MEDIA_TYPES).map(str::to_owned).collect()
}

/// The URL of each scheme, or the path alone, which needs a `base_url`.
fn servers(root: &mut Map<String, Value>) -> Value {
    let mut text = |name: &str| match root.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (host, path) = (text("host"), text("basePath"));
    let path = path.trim_end_matches('/');
    let schemes = media_types(root.remove("schemes"));
    let known = schemes.iter().map(String::as_str).filter(|scheme| matches!(*scheme, "https" | "http"));
    let mut schemes: Vec<&str> = known.collect();
    if schemes.is_empty() {
        schemes.push("https");
    }
    match host.is_empty() {
        true => json!([{"url": format!("{path}/")}]),
        false => schemes.iter().map(|scheme| json!({"url": format!("{scheme}://{host}{path}")})).collect(),
    }
}

fn security_schemes(schemes: Map<String, Value>) -> Map<String, Value> {
    let convert = |scheme: Value| {
        let text = |name: &str| scheme.get(name).cloned().unwrap_or_default();
        let flow = |name: &str| {
            let fields = ["authorizationUrl", "tokenUrl", "scopes"];
            let fields =
                fields.into_iter().filter_map(|field| Some((field.to_owned(), scheme.get(field)?.clone())));
            json!({"type": "oauth2", "flows": {name: Value::Object(fields.collect())}})
        };
        match (text("type").as_str(), text("flow").as_str()) {
            (Some("basic"), _) => json!({"type": "http", "scheme": "basic"}),
            (Some("oauth2"), Some("application")) => flow("clientCredentials"),
            (Some("oauth2"), Some("accessCode")) => flow("authorizationCode"),
            (Some("oauth2"), Some(name @ ("implicit" | "password"))) => flow(name),
            _ => scheme,
        }
    };
    schemes.into_iter().map(|(name, scheme)| (name, convert(scheme))).collect()
}

/// Whether a parameter is the body or a part of a form.
fn is_in_body(parameter: &Value) -> bool {
    parameter.get("in").is_some_and(|place| place == "body" || place == "formData")
}

/// A parameter whose value has a schema of its own.
fn value_parameter(parameter: Value) -> Value {
    let Value::Object(parameter) = parameter else { return parameter };
    if parameter.contains_key("$ref") {
        return Value::Object(parameter);
    }
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_list = parameter.get("type").is_some_and(|kind| kind == "array");
    let format = parameter.get("collectionFormat").and_then(Value::as_str).unwrap_or("csv").to_owned();
    let (mut converted, mut schema) = (Map::new(), Map::new());
    for (name, value) in parameter {
        match name.as_str() {
            field if PARAMETER_FIELDS.contains(&field) => converted.insert(name, value),
            "collectionFormat" | "allowEmptyValue" => None,
            _ => schema.insert(name, value),
        };
    }
    if is_list && place == "query" {
        let (style, explodes) = match format.as_str() {
            "multi" => ("form", true),
            "ssv" => ("spaceDelimited", false),
            "pipes" => ("pipeDelimited", false),
            "csv" => ("form", false),
            _ => ("tabDelimited", false),
        };
        converted.insert("style".to_owned(), json!(style));
        converted.insert("explode".to_owned(), json!(explodes));
    }
    converted.insert("schema".to_owned(), Value::Object(schema));
    Value::Object(converted)
}

/// The parts of the document that conversion reads and adds to.
struct Converter {
    parameters: Map<String, Value>,
    schemas: Map<String, Value>,
    bodies: Map<String, Value>,
    consumes: Vec<String>,
    produces: Vec<String>,
}

impl Converter {
    fn path_item(&mut self, item: &mut Value) {
        let Value::Object(item) = item else { return };
        let shared = match item.remove("parameters") {
            Some(Value::Array(parameters)) => parameters,
            _ => Vec::new(),
        };
        let (bodies, values): (Vec<Value>, Vec<Value>) =
            shared.into_iter().partition(|parameter| is_in_body(self.parameter(parameter)));
        // A body of the path item is that of each operation, by reference.
        let bodies: Vec<Value> = bodies.into_iter().map(|body| self.share_parameter(body)).collect();
        item.insert("parameters".to_owned(), values.into_iter().map(value_parameter).collect());
        for method in METHODS {
            if let Some(Value::Object(operation)) = item.get_mut(method) {
                self.operation(operation, &bodies);
            }
        }
    }

    fn operation(&mut self, operation: &mut Map<String, Value>, shared_bodies: &[Value]) {
        let own =
            |types: Vec<String>, shared: &[String]| if types.is_empty() { shared.to_vec() } else { types };
        let consumes = own(media_types(operation.remove("consumes")), &self.consumes);
        let produces = own(media_types(operation.remove("produces")), &self.produces);
        let parameters = match operation.remove("parameters") {
            Some(Value::Array(parameters)) => parameters,
            _ => Vec::new(),
        };
        let (mut bodies, values): (Vec<Value>, Vec<Value>) =
            parameters.into_iter().partition(|parameter| is_in_body(self.parameter(parameter)));
        if bodies.is_empty() {
            bodies = shared_bodies.to_vec();
        }
        operation.insert("parameters".to_owned(), values.into_iter().map(value_parameter).collect());
        if let Some(body) = self.request_body(bodies, &consumes) {
            operation.insert("requestBody".to_owned(), body);
        }
        if let Some(Value::Object(responses)) = operation.get_mut("responses") {
            responses.values_mut().for_each(|response| self.response(response, &produces));
        }
    }

    /// A parameter, or the shared one that it refers to.
    fn parameter<'a>(&'a self, parameter: &'a Value) -> &'a Value {
        let name =
            parameter.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/parameters/"));
        name.and_then(|name| self.parameters.get(name)).unwrap_or(parameter)
    }

    /// Makes a parameter of a path item a shared one, and returns its reference.
    fn share_parameter(&mut self, parameter: Value) -> Value {
        if parameter.get("$ref").is_some() {
            return parameter;
        }
        let name = format!("path.{}", self.parameters.len());
        self.parameters.insert(name.clone(), parameter);
        json!({"$ref": format!("#/parameters/{name}")})
    }

    fn request_body(&mut self, parameters: Vec<Value>, consumes: &[String]) -> Option<Value> {
        let is_form =
            |parameter: &&Value| self.parameter(parameter).get("in").is_some_and(|place| place == "formData");
        match parameters.iter().find(|parameter| !is_form(parameter)) {
            Some(body) => {
                let body = body.clone();
                let schema = self.schema_of(&body)?;
                let body = self.parameter(&body);
                let types =
                    if consumes.is_empty() { vec!["application/json".to_owned()] } else { consumes.to_vec() };
                let description = body.get("description").cloned().unwrap_or_default();
                let is_required = body.get("required") == Some(&Value::Bool(true));
                Some(
                    json!({"required": is_required, "description": description, "content": content(&types, &schema)}),
                )
            }
            None if parameters.is_empty() => None,
            None => Some(self.form(&parameters, consumes)),
        }
    }

    fn form(&mut self, parameters: &[Value], consumes: &[String]) -> Value {
        let (mut properties, mut required, mut has_file) = (Map::new(), Vec::new(), false);
        for parameter in parameters {
            let shown = self.parameter(parameter);
            let Some(name) = shown.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
            has_file |= shown.get("type").is_some_and(|kind| kind == "file");
            if shown.get("required") == Some(&Value::Bool(true)) {
                required.push(name.clone());
            }
            properties.extend(self.schema_of(parameter).map(|schema| (name, schema)));
        }
        let takes = |media_type: &str| consumes.iter().any(|other| other.eq_ignore_ascii_case(media_type));
        let media_type =
            match has_file || takes("multipart/form-data") && !takes("application/x-www-form-urlencoded") {
                true => "multipart/form-data",
                false => "application/x-www-form-urlencoded",
            };
        let is_required = !required.is_empty();
        let mut schema = json!({"type": "object", "properties": properties});
        if is_required {
            schema["required"] = json!(required);
        }
        json!({"required": is_required, "content": {media_type: {"schema": schema}}})
    }

    /// A reference to the schema of a body or a part of a form. The schema of a shared parameter becomes one component.
    fn schema_of(&mut self, parameter: &Value) -> Option<Value> {
        let (name, parameter) = match parameter.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let name = format!("parameter.{}", reference.strip_prefix("#/parameters/")?);
                if self.schemas.contains_key(&name) {
                    return Some(schema_reference(&name));
                }
                (name, self.parameter(parameter).clone())
            }
            None => (format!("body.{}", self.schemas.len()), parameter.clone()),
        };
        let schema = match parameter {
            Value::Object(mut parameter) if parameter.get("in").is_some_and(|place| place == "body") => {
                parameter.remove("schema").unwrap_or_default()
            }
            other => {
                let description = other.get("description").cloned();
                let mut schema =
                    value_parameter(other).get_mut("schema").map(Value::take).unwrap_or_default();
                if let (Value::Object(schema), Some(description)) = (&mut schema, description) {
                    schema.insert("description".to_owned(), description);
                }
                schema
            }
        };
        self.schemas.insert(name.clone(), schema);
        Some(schema_reference(&name))
    }

    fn response(&mut self, response: &mut Value, produces: &[String]) {
        let Value::Object(response) = response else { return };
        let Some(schema) = response.remove("schema") else { return };
        let is_file = schema.get("type").is_some_and(|kind| kind == "file");
        let usual = if is_file { "application/octet-stream" } else { "application/json" };
        let types = if produces.is_empty() { vec![usual.to_owned()] } else { produces.to_vec() };
        let name = format!("response.{}", self.schemas.len());
        self.schemas.insert(name.clone(), schema);
        response.insert("content".to_owned(), content(&types, &schema_reference(&name)));
    }
}

fn content(types: &[String], schema: &Value) -> Value {
    let media = types.iter().map(|media_type| (media_type.clone(), json!({"schema": schema})));
    Value::Object(media.collect())
}

fn schema_reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", name.replace('~', "~0").replace('/', "~1"))})
}

/// Replaces references, `x-nullable`, files and named discriminators at every depth.
fn rewrite(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                for (from, to) in [
                    ("#/definitions/", "#/components/schemas/"),
                    ("#/parameters/", "#/components/parameters/"),
                    ("#/responses/", "#/components/responses/"),
                ] {
                    if let Some(rest) = reference.strip_prefix(from) {
                        *reference = format!("{to}{rest}");
                    }
                }
            }
            if map.get("type").is_some_and(|kind| kind == "file") {
                map.insert("type".to_owned(), json!("string"));
                map.insert("format".to_owned(), json!("binary"));
            }
            if let Some(nullable @ Value::Bool(_)) = map.remove("x-nullable") {
                map.insert("nullable".to_owned(), nullable);
            }
            map.values_mut().for_each(rewrite);
        }
        _ => {}
    }
}
