{{/*
What cannot work is said before anything is rendered: which value, what is wrong, what to write.
Types are told by values.schema.json first; they are looked at again here because Helm can be told
to skip the schema, and because a template that trips over a type says nothing of use.
*/}}
{{- define "gha-rs-controller.checks" -}}
{{- include "gha-rs-controller.checkTypes" . }}
{{- include "gha-rs-controller.checkAccount" . }}
{{- include "gha-rs-controller.checkNames" . }}
{{- include "gha-rs-controller.checkAddresses" . }}
{{- include "gha-rs-controller.checkLists" . }}
{{- include "gha-rs-controller.checkMonitors" . }}
{{- end }}

{{/* Every value and its type; a list of words is a choice. The outer stand before the inner. */}}
{{- define "gha-rs-controller.types" -}}
labels: labels
replicaCount: count
image: map
image.repository: text
image.pullPolicy: [Always, IfNotPresent, Never]
image.tag: tag
imagePullSecrets: list
nameOverride: text
fullnameOverride: text
namespaceOverride: text
env: list
serviceAccount: map
serviceAccount.create: switch
serviceAccount.annotations: labels
serviceAccount.name: text
podAnnotations: labels
podLabels: labels
podSecurityContext: map
securityContext: map
resources: map
nodeSelector: labels
tolerations: list
affinity: map
topologySpreadConstraints: list
volumes: list
volumeMounts: list
priorityClassName: text
metrics: map
metrics.controllerManagerAddr: text
metrics.listenerAddr: text
metrics.listenerEndpoint: text
pprof: map
pprof.addr: text
flags: map
flags.logLevel: [debug, info, warn, error]
flags.logFormat: [text, json]
flags.watchSingleNamespace: text
flags.runnerMaxConcurrentReconciles: count
flags.autoscalingRunnerSetMaxConcurrentReconciles: count
flags.autoscalingListenerMaxConcurrentReconciles: count
flags.ephemeralRunnerSetMaxConcurrentReconciles: count
flags.ephemeralRunnerMaxConcurrentReconciles: count
flags.excludeLabelPropagationPrefixes: list
flags.rateLimiter: map
flags.rateLimiter.name: [bucket_rate_limiter, typed_rate_limiter]
flags.healthProbeBindAddress: text
flags.k8sClientRateLimiterQPS: count
flags.k8sClientRateLimiterBurst: count
additions: map
additions.labels: switch
additions.events: switch
additions.restrictedSecurity: switch
additions.resources: switch
additions.probes: switch
additions.podDisruptionBudget: switch
additions.topologySpread: switch
additions.listenerSecurity: switch
additions.listenerResources: switch
additions.unknownValueNotes: switch
networkPolicy: map
networkPolicy.enabled: switch
networkPolicy.metricsFrom: list
networkPolicy.egress: list
networkPolicy.extraEgress: list
podMonitor: map
podMonitor.enabled: switch
podMonitor.labels: labels
podMonitor.interval: text
podMonitor.scrapeTimeout: text
podMonitor.relabelings: list
podMonitor.metricRelabelings: list
serviceMonitor: map
serviceMonitor.enabled: switch
serviceMonitor.labels: labels
serviceMonitor.interval: text
serviceMonitor.scrapeTimeout: text
serviceMonitor.relabelings: list
serviceMonitor.metricRelabelings: list
prometheusRule: map
prometheusRule.enabled: switch
prometheusRule.labels: labels
{{- end }}

{{- define "gha-rs-controller.checkTypes" -}}
{{- range $path, $type := include "gha-rs-controller.types" . | fromYaml }}
{{- $value := $.Values }}
{{- range $key := splitList "." $path }}
{{- if kindIs "map" $value }}{{ $value = index $value $key }}{{ else }}{{ $value = (dict).none }}{{ end }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
{{- include "gha-rs-controller.checkType" (dict "value" $value "path" $path "type" $type) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Context: value (not null), path, type. */}}
{{- define "gha-rs-controller.checkType" -}}
{{- $plain := not (or (kindIs "map" .value) (kindIs "slice" .value)) }}
{{- if kindIs "slice" .type }}
{{- if not (and (kindIs "string" .value) (has .value (append .type ""))) }}
{{- include "gha-rs-controller.refuse" (merge (dict "wanted" (printf "be one of %s" (join ", " .type))) .) }}
{{- end }}
{{- else if eq .type "map" }}
{{- if not (kindIs "map" .value) }}{{ include "gha-rs-controller.refuse" (merge (dict "wanted" "be a map: keys with values") .) }}{{ end }}
{{- else if eq .type "list" }}
{{- if not (kindIs "slice" .value) }}{{ include "gha-rs-controller.refuse" (merge (dict "wanted" "be a list: items that begin with a dash") .) }}{{ end }}
{{- else if eq .type "text" }}
{{- if not (kindIs "string" .value) }}{{ include "gha-rs-controller.refuse" (merge (dict "wanted" "be a text: put it in quotes (with --set: --set-string)") .) }}{{ end }}
{{- else if eq .type "switch" }}
{{- if not (kindIs "bool" .value) }}{{ include "gha-rs-controller.refuse" (merge (dict "wanted" "be true or false, without quotes") .) }}{{ end }}
{{- else if eq .type "count" }}
{{- if not (and $plain (regexMatch "^(0|[1-9][0-9]{0,8})?$" (include "gha-rs-controller.text" .value))) }}
{{- include "gha-rs-controller.refuse" (merge (dict "wanted" "be a whole number from 0 to 999999999") .) }}
{{- end }}
{{- else if eq .type "tag" }}
{{- if or (not $plain) (kindIs "bool" .value) (and (kindIs "float64" .value) (contains "." (include "gha-rs-controller.text" .value))) }}
{{- include "gha-rs-controller.refuse" (merge (dict "wanted" "be a text: put it in quotes") .) }}
{{- end }}
{{- else if eq .type "labels" }}
{{- if not (kindIs "map" .value) }}{{ include "gha-rs-controller.refuse" (merge (dict "wanted" "be a map: keys with values") .) }}{{ end }}
{{- range $key, $one := .value }}
{{- if or (kindIs "map" $one) (kindIs "slice" $one) }}
{{- include "gha-rs-controller.refuse" (dict "path" (printf "%s.%s" $.path $key) "value" $one "wanted" "be a text") }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Context: path, value, wanted. The environment may hold secrets: what is in it is not repeated. */}}
{{- define "gha-rs-controller.refuse" -}}
{{- $is := ternary "a list" (ternary "a map" (toJson .value | trunc 80) (kindIs "map" .value)) (kindIs "slice" .value) }}
{{- if and (hasPrefix "env" .path) (kindIs "string" .value) }}{{ $is = "a text" }}{{ end }}
{{- fail (printf "%s is %s and must %s. Correct it, or leave it out." .path $is .wanted) }}
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

{{/* What a name has come to, and which value to change. Kubernetes would refuse the object; a name
with odd characters in it might even become another object. */}}
{{- define "gha-rs-controller.checkNames" -}}
{{- $name := dict "pattern" "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" "allowed" "at most 63 lower case letters, digits, dashes and single dots" }}
{{- $namespace := dict "pattern" "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" "allowed" "at most 63 lower case letters, digits and dashes" }}
{{- $label := dict "pattern" "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$" "allowed" "letters, digits, dashes, dots and underscores" }}
{{- range $check := list
    (merge (dict "value" (include "gha-rs-controller.name" .) "path" "nameOverride") $label)
    (merge (dict "value" (include "gha-rs-controller.fullname" .) "path" (ternary "fullnameOverride" "nameOverride" (not (empty .Values.fullnameOverride)))) $name)
    (merge (dict "value" (include "gha-rs-controller.namespace" .) "path" "namespaceOverride") $namespace)
    (merge (dict "value" (include "gha-rs-controller.account" .) "path" "serviceAccount.name") $name)
    (merge (dict "value" ((.Values.flags).watchSingleNamespace | default "x") "path" "flags.watchSingleNamespace") $namespace) }}
{{- /* An account's name is the value of a label too, which ends at 63 characters. */}}
{{- if or (gt (len $check.value) 63) (not (regexMatch $check.pattern $check.value)) }}
{{- fail (printf "%s makes the name %q, which Kubernetes does not take. Use %s, with a letter or digit at both ends." $check.path $check.value $check.allowed) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gha-rs-controller.checkAddresses" -}}
{{- if include "gha-rs-controller.wantsMetrics" . }}
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
{{- if not (kindIs "map" $item) }}
{{- include "gha-rs-controller.refuse" (dict "value" $item "path" (printf "%s[%d]" $path $i) "wanted" "be a map, as in a pod") }}
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
{{- include "gha-rs-controller.refuse" (dict "value" $item "path" (printf "flags.excludeLabelPropagationPrefixes[%d]" $i) "wanted" "be the beginning of a label's key, such as \"example.com/\"") }}
{{- end }}
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
