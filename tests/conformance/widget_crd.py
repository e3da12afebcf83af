"""The CRD that the conformance cases use: every schema feature we rely on, once."""

from typing import Any

WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.conformance.runnerscale.dev"},
    "spec": {
        "group": "conformance.runnerscale.dev",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
            "shortNames": ["wg"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "!has(self.min) || !has(self.max)"
                                        " || self.min <= self.max",
                                        "message": "min must not exceed max",
                                    },
                                    {
                                        "rule": "!has(oldSelf.frozen) || (has(self.frozen)"
                                        " && self.frozen == oldSelf.frozen)",
                                        "message": "frozen may not change",
                                        "reason": "FieldValueForbidden",
                                        "fieldPath": ".frozen",
                                    },
                                ],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 0, "maximum": 100},
                                    "min": {"type": "integer"},
                                    "max": {"type": "integer"},
                                    "frozen": {"type": "string"},
                                    "ratio": {
                                        "type": "number",
                                        "exclusiveMinimum": True,
                                        "minimum": 0,
                                    },
                                    "color": {"type": "string", "enum": ["red", "green"]},
                                    "url": {
                                        "type": "string",
                                        "maxLength": 20,
                                        "pattern": "^https?://",
                                    },
                                    "label": {"type": "string", "minLength": 2},
                                    "mode": {"type": "string", "default": "auto"},
                                    "nested": {
                                        "type": "object",
                                        "default": {},
                                        "properties": {
                                            "deep": {"type": "integer", "default": 7},
                                        },
                                    },
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "maybe": {"type": "string", "nullable": True},
                                    "when": {"type": "string", "format": "date-time"},
                                    "tags": {
                                        "type": "array",
                                        "maxItems": 2,
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "count": {"type": "integer"},
                                            },
                                        },
                                    },
                                    "counts": {
                                        "type": "object",
                                        "additionalProperties": {"type": "integer"},
                                    },
                                    "open": {
                                        "type": "object",
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "template": {
                                        "type": "object",
                                        "required": ["containers"],
                                        "x-kubernetes-preserve-unknown-fields": True,
                                        "properties": {
                                            "containers": {
                                                "type": "array",
                                                "items": {
                                                    "type": "object",
                                                    "x-kubernetes-preserve-unknown-fields": True,
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string"},
                                    "conditions": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                        "items": {
                                            "type": "object",
                                            "required": ["type", "status"],
                                            "properties": {
                                                "type": {"type": "string"},
                                                "status": {"type": "string"},
                                            },
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
