{{/*
What cannot work is said before anything is rendered: which value, what is wrong, what to write.
Types are told by values.schema.json first; they are looked at again here because Helm can be told
to skip the schema, and because a template that trips over a type says nothing of use.
*/}}
{{- define "gha-rs-controller.checks" -}}
{{- include "gha-rs-controller.checkTypes" . }}
{{- include "gha-rs-controller.checkAccount" . }}
{{- include "gha-rs-controller.checkAddresses" . }}
{{- include "gha-rs-controller.checkLists" . }}
{{- include "gha-rs-controller.checkNumbers" . }}
{{- include "gha-rs-controller.checkMonitors" . }}
{{- end }}

{{- define "gha-rs-controller.checkTypes" -}}
{{- $values := .Values }}
{{- range $path := list "labels" "image" "serviceAccount" "podAnnotations" "podLabels" "podSecurityContext" "securityContext" "resources" "nodeSelector" "affinity" "metrics" "pprof" "flags" "additions" "networkPolicy" "podMonitor" "serviceMonitor" "prometheusRule" }}
{{- include "gha-rs-controller.isA" (dict "value" (index $values $path) "path" $path "kind" "map" "example" (printf "%s: {key: value}" $path)) }}
{{- end }}
{{- range $path := list "imagePullSecrets" "env" "tolerations" "topologySpreadConstraints" "volumes" "volumeMounts" }}
{{- include "gha-rs-controller.isA" (dict "value" (index $values $path) "path" $path "kind" "slice" "example" "a list, each item on a line that begins with a dash") }}
{{- end }}
{{- range $path := list "nameOverride" "fullnameOverride" "namespaceOverride" "priorityClassName" }}
{{- include "gha-rs-controller.isA" (dict "value" (index $values $path) "path" $path "kind" "string" "example" "text, in quotes (with --set: --set-string)") }}
{{- end }}
{{- $nested := dict
    "image.repository" (dict "value" (.Values.image).repository "kind" "string")
    "image.pullPolicy" (dict "value" (.Values.image).pullPolicy "kind" "string")
    "serviceAccount.name" (dict "value" (.Values.serviceAccount).name "kind" "string")
    "serviceAccount.annotations" (dict "value" (.Values.serviceAccount).annotations "kind" "map")
    "metrics.controllerManagerAddr" (dict "value" (.Values.metrics).controllerManagerAddr "kind" "string")
    "metrics.listenerAddr" (dict "value" (.Values.metrics).listenerAddr "kind" "string")
    "metrics.listenerEndpoint" (dict "value" (.Values.metrics).listenerEndpoint "kind" "string")
    "pprof.addr" (dict "value" (.Values.pprof).addr "kind" "string")
    "flags.logLevel" (dict "value" (.Values.flags).logLevel "kind" "string")
    "flags.logFormat" (dict "value" (.Values.flags).logFormat "kind" "string")
    "flags.watchSingleNamespace" (dict "value" (.Values.flags).watchSingleNamespace "kind" "string")
    "flags.excludeLabelPropagationPrefixes" (dict "value" (.Values.flags).excludeLabelPropagationPrefixes "kind" "slice")
    "flags.rateLimiter" (dict "value" (.Values.flags).rateLimiter "kind" "map")
    "flags.healthProbeBindAddress" (dict "value" (.Values.flags).healthProbeBindAddress "kind" "string") }}
{{- range $path, $check := $nested }}
{{- include "gha-rs-controller.isA" (merge (dict "path" $path "example" (get (dict "string" "text, in quotes" "map" "a map" "slice" "a list, each item on a line that begins with a dash") $check.kind)) $check) }}
{{- end }}
{{- include "gha-rs-controller.isA" (dict "value" ((.Values.flags).rateLimiter).name "path" "flags.rateLimiter.name" "kind" "string" "example" "text, in quotes") }}
{{- end }}

{{/* Context: value, path, kind, example. Null is always fine: it means "not given". */}}
{{- define "gha-rs-controller.isA" -}}
{{- if not (or (kindIs "invalid" .value) (kindIs .kind .value)) }}
{{- $words := dict "map" "a map" "slice" "a list" "string" "a text" "bool" "true or false" "float64" "a number" "int64" "a number" "int" "a number" }}
{{- fail (printf "%s is %s and must be %s. Write %s, or leave it out." .path (get $words (kindOf .value) | default (kindOf .value)) (get $words .kind) .example) }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkAccount" -}}
{{- $name := (.Values.serviceAccount).name }}
{{- if eq ($name | default "") "default" }}
{{- fail "serviceAccount.name \"default\" is not allowed: every pod of the namespace that names no account would get the controller's rights. Choose another name, or leave it empty and let the chart make one." }}
{{- end }}
{{- if not (or $name (include "gha-rs-controller.makesAccount" .)) }}
{{- fail "serviceAccount.name is empty and serviceAccount.create is false: the controller needs an account. Set serviceAccount.name to one that exists, or serviceAccount.create to true." }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkAddresses" -}}
{{- if .Values.metrics }}
{{- include "gha-rs-controller.isAddress" (dict "value" .Values.metrics.controllerManagerAddr "path" "metrics.controllerManagerAddr" "example" ":8080" "off" "To have no metrics, remove all keys of metrics.") }}
{{- with .Values.metrics.listenerAddr }}
{{- include "gha-rs-controller.isAddress" (dict "value" . "path" "metrics.listenerAddr" "example" ":8080" "off" "To have no metrics of listeners, leave it out.") }}
{{- end }}
{{- end }}
{{- with (.Values.pprof).addr }}
{{- include "gha-rs-controller.isAddress" (dict "value" . "path" "pprof.addr" "example" ":6060" "off" "To have no profiles, leave it out.") }}
{{- end }}
{{- with (.Values.flags).healthProbeBindAddress }}
{{- include "gha-rs-controller.isAddress" (dict "value" . "path" "flags.healthProbeBindAddress" "example" ":8081" "off" "Leave it out and set additions.probes to false to have no probes.") }}
{{- end }}
{{- end }}

{{/* Context: value, path, example, off. "0" is an address too: nowhere. */}}
{{- define "gha-rs-controller.isAddress" -}}
{{- $port := regexFind ":[0-9]+$" (.value | default "") | trimPrefix ":" }}
{{- if ne (.value | default "") "0" }}
{{- if or (not $port) (gt (len $port) 5) (lt (atoi ($port | default "0")) 1) (gt (atoi ($port | default "0")) 65535) }}
{{- fail (printf "%s must be an address that ends in a numeric port from 1 to 65535, and is %q. Write it as %q. %s" .path (.value | default "") .example .off) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkLists" -}}
{{- range $i, $item := .Values.imagePullSecrets }}
{{- if not (kindIs "map" $item) }}
{{- fail (printf "imagePullSecrets[%d] is %q and must be a map with the name of a Secret. Write it as {name: %s}." $i (toString $item) (toString $item)) }}
{{- end }}
{{- if not $item.name }}
{{- fail (printf "imagePullSecrets[%d] has no name. Write it as {name: NAME-OF-A-SECRET}." $i) }}
{{- end }}
{{- end }}
{{- range $path := list "env" "volumes" "volumeMounts" "tolerations" "topologySpreadConstraints" }}
{{- range $i, $item := index $.Values $path }}
{{- include "gha-rs-controller.isA" (dict "value" $item "path" (printf "%s[%d]" $path $i) "kind" "map" "example" "it as in a pod") }}
{{- if kindIs "invalid" $item }}
{{- fail (printf "%s[%d] is empty. Write it as in a pod, or remove it." $path $i) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $i, $item := .Values.env }}
{{- if and (hasKey $item "value") (not (or (kindIs "string" $item.value) (kindIs "invalid" $item.value))) }}
{{- fail (printf "env[%d].value (%s) is not a text. Put it in quotes." $i (toString $item.name)) }}
{{- end }}
{{- end }}
{{- range $i, $item := (.Values.flags).excludeLabelPropagationPrefixes }}
{{- if not (and (kindIs "string" $item) $item) }}
{{- fail (printf "flags.excludeLabelPropagationPrefixes[%d] is not a text. Write the beginning of a label's key, such as \"example.com/\"." $i) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkNumbers" -}}
{{- include "gha-rs-controller.isCount" (dict "value" .Values.replicaCount "path" "replicaCount") }}
{{- range $key := list "runnerMaxConcurrentReconciles" "autoscalingRunnerSetMaxConcurrentReconciles" "autoscalingListenerMaxConcurrentReconciles" "ephemeralRunnerSetMaxConcurrentReconciles" "ephemeralRunnerMaxConcurrentReconciles" "k8sClientRateLimiterQPS" "k8sClientRateLimiterBurst" }}
{{- include "gha-rs-controller.isCount" (dict "value" (get ($.Values.flags | default dict) $key) "path" (printf "flags.%s" $key)) }}
{{- end }}
{{- end }}

{{/* Context: value, path. Digits, as a number or in quotes; empty means "not given". */}}
{{- define "gha-rs-controller.isCount" -}}
{{- $text := include "gha-rs-controller.text" .value }}
{{- if and $text (not (regexMatch "^(0|[1-9][0-9]{0,8})$" $text)) }}
{{- fail (printf "%s is %q and must be a whole number from 0 to 999999999. Write it in digits, or leave it out." .path $text) }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkMonitors" -}}
{{- $metrics := .Values.metrics | default dict }}
{{- $controller := include "gha-rs-controller.port" $metrics.controllerManagerAddr }}
{{- $listeners := and $metrics.listenerEndpoint (include "gha-rs-controller.port" $metrics.listenerAddr) }}
{{- if and (.Values.podMonitor).enabled (not (or $controller $listeners)) }}
{{- fail "podMonitor.enabled is true, but no metrics are published. Set metrics.controllerManagerAddr (such as \":8080\"), or podMonitor.enabled to false." }}
{{- end }}
{{- if and (.Values.serviceMonitor).enabled (not $controller) }}
{{- fail "serviceMonitor.enabled is true, but the controller publishes no metrics. Set metrics.controllerManagerAddr (such as \":8080\"), or serviceMonitor.enabled to false." }}
{{- end }}
{{- end }}
