//! What makes a Rust type a custom resource.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps, SelectableField, ValidationRule,
};
use kube::api::ObjectMeta;

use crate::schema::Rule;

/// Declares the root type of a custom resource.
///
/// `kube::CustomResource` would derive it, but knows `spec` and `status` only, and half of cStor's kinds keep
/// `versionDetails` (or `publish`) beside them. So the root types of all kinds are made here, in the same way.
///
/// A `status` makes a status subresource. It need not be an object: the API server was seen to take bare strings
/// there by update, merge patch, JSON patch and server-side apply, and to keep them out of `metadata.generation`.
macro_rules! custom_resource {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            group: $group:literal,
            version: $version:literal,
            plural: $plural:literal,
            short: $short:literal,
            columns: [$($column:expr),* $(,)?],
            selectable: [$($selectable:literal),* $(,)?],
            rules: [$($rule:expr),* $(,)?],
        }
        spec: $spec:ty,
        $(status: $status:ty,)?
        $(beside: {
            $($(#[$extra_doc:meta])* $extra:ident ($extra_key:literal): $extra_type:ty,)*
        })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        pub struct $name {
            /// Name, namespace, labels, annotations.
            #[schemars(skip)]
            pub metadata: kube::api::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            $(
                /// What was observed.
                #[serde(default)]
                pub status: Option<$status>,
            )?
            $($(
                $(#[$extra_doc])*
                #[serde(default, rename = $extra_key)]
                pub $extra: Option<$extra_type>,
            )*)?
        }

        impl $name {
            /// An object that has a name and a wish, and nothing else yet.
            pub fn new(name: &str, spec: $spec) -> Self {
                Self {
                    metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
                    spec,
                    $(status: None::<$status>,)?
                    $($($extra: None,)*)?
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", &<Self as kube::Resource>::api_version(&()))?;
                map.serialize_entry("kind", stringify!($name))?;
                map.serialize_entry("metadata", &self.metadata)?;
                map.serialize_entry("spec", &self.spec)?;
                $($(
                    if let Some(value) = &self.$extra {
                        map.serialize_entry($extra_key, value)?;
                    }
                )*)?
                $(
                    let status: &Option<$status> = &self.status;
                    if let Some(value) = status {
                        map.serialize_entry("status", value)?;
                    }
                )?
                map.end()
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::core::object::HasSpec for $name {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        $(
            impl kube::core::object::HasStatus for $name {
                type Status = $status;

                fn status(&self) -> Option<&$status> {
                    self.status.as_ref()
                }

                fn status_mut(&mut self) -> &mut Option<$status> {
                    &mut self.status
                }
            }
        )?

        impl kube::CustomResourceExt for $name {
            fn crd() -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
                $crate::resource::Definition {
                    group: $group,
                    version: $version,
                    kind: stringify!($name),
                    plural: $plural,
                    short: $short,
                    columns: vec![$($column),*],
                    selectable: vec![$($selectable),*],
                    statuses: vec![$(stringify!($status),)?],
                    schema: $crate::schema::structural::<Self>(),
                    rules: vec![$($rule),*],
                }
                .build()
            }

            fn crd_name() -> &'static str {
                concat!($plural, ".", $group)
            }

            fn api_resource() -> kube::core::ApiResource {
                kube::core::ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                &[$short]
            }
        }
    };
}

pub(crate) use custom_resource;

/// A column of `kubectl get`.
pub(crate) struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    description: &'static str,
    wide: bool,
}

impl Column {
    /// A column of texts.
    pub(crate) const fn text(name: &'static str, path: &'static str, description: &'static str) -> Self {
        Self {
            name,
            type_: "string",
            path,
            description,
            wide: false,
        }
    }

    /// A column of whole numbers.
    pub(crate) const fn number(name: &'static str, path: &'static str, description: &'static str) -> Self {
        Self {
            name,
            type_: "integer",
            path,
            description,
            wide: false,
        }
    }

    /// A column of true and false.
    pub(crate) const fn flag(name: &'static str, path: &'static str, description: &'static str) -> Self {
        Self {
            name,
            type_: "boolean",
            path,
            description,
            wide: false,
        }
    }

    /// Shown with `-o wide` only.
    pub(crate) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// How long the object has existed.
pub(crate) const AGE: Column = Column {
    name: "Age",
    type_: "date",
    path: ".metadata.creationTimestamp",
    description: "Time since the object was created",
    wide: false,
};

/// What [`custom_resource`] knows of a kind.
pub(crate) struct Definition {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<&'static str>,
    /// The type of the status, if there is one.
    pub(crate) statuses: Vec<&'static str>,
    pub(crate) schema: Option<JSONSchemaProps>,
    pub(crate) rules: Vec<Rule>,
}

impl Definition {
    /// The definition, as the API server takes it.
    pub(crate) fn build(self) -> CustomResourceDefinition {
        let column = |column: &Column| CustomResourceColumnDefinition {
            name: column.name.to_owned(),
            type_: column.type_.to_owned(),
            json_path: column.path.to_owned(),
            description: Some(column.description.to_owned()),
            priority: column.wide.then_some(1),
            format: None,
        };
        let mut schema = self.schema;
        if let Some(schema) = &mut schema {
            let rule = |(rule, message): Rule| ValidationRule {
                rule: rule.to_owned(),
                message: Some(message.to_owned()),
                ..ValidationRule::default()
            };
            let rules: Vec<_> = self.rules.into_iter().map(rule).collect();
            schema.x_kubernetes_validations = (!rules.is_empty()).then_some(rules);
        }
        let selectable = |path: &&str| SelectableField {
            json_path: (*path).to_owned(),
        };
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.plural, self.group)),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: self.group.to_owned(),
                names: CustomResourceDefinitionNames {
                    kind: self.kind.to_owned(),
                    list_kind: Some(format!("{}List", self.kind)),
                    plural: self.plural.to_owned(),
                    singular: Some(self.kind.to_lowercase()),
                    short_names: Some(vec![self.short.to_owned()]),
                    categories: None,
                },
                scope: "Namespaced".to_owned(),
                versions: vec![CustomResourceDefinitionVersion {
                    name: self.version.to_owned(),
                    served: true,
                    storage: true,
                    additional_printer_columns: Some(self.columns.iter().map(column).collect())
                        .filter(|columns: &Vec<_>| !columns.is_empty()),
                    selectable_fields: Some(self.selectable.iter().map(selectable).collect())
                        .filter(|fields: &Vec<_>| !fields.is_empty()),
                    subresources: (!self.statuses.is_empty()).then(|| CustomResourceSubresources {
                        status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
                        scale: None,
                    }),
                    schema: Some(CustomResourceValidation {
                        open_api_v3_schema: schema,
                    }),
                    ..CustomResourceDefinitionVersion::default()
                }],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}
