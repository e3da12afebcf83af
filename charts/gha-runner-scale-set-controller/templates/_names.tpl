{{/*
What things are called, and the labels they carry. Suffixes come after the cut at 63 characters,
so that names stay those of ARC's chart.
*/}}

{{- define "gha-rs-controller.word" -}}
gha-rs-controller
{{- end }}

{{- define "gha-rs-controller.name" -}}
{{- .Values.nameOverride | default (include "gha-rs-controller.word" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gha-rs-controller.fullname" -}}
{{- $word := .Values.nameOverride | default (include "gha-rs-controller.word" .) }}
{{- $full := .Values.fullnameOverride }}
{{- if not $full }}
{{- $full = contains $word .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $word) }}
{{- end }}
{{- $full | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gha-rs-controller.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* "true", or empty: whether the chart makes the account. Not said means yes. */}}
{{- define "gha-rs-controller.makesAccount" -}}
{{- if ne (toString (.Values.serviceAccount).create) "false" }}true{{ end }}
{{- end }}

{{- define "gha-rs-controller.account" -}}
{{- ((.Values.serviceAccount).name) | default (include "gha-rs-controller.fullname" .) }}
{{- end }}

{{- define "gha-rs-controller.image" -}}
{{- $image := .Values.image | default dict }}
{{- $tag := include "gha-rs-controller.text" $image.tag | default .Chart.AppVersion }}
{{- printf "%s:%s" ($image.repository | default "ghcr.io/runnerscale/runnerscale") $tag }}
{{- end }}

{{/* A chart's name and version as a label's value. Context: the words before the version, the root. */}}
{{- define "gha-rs-controller.versionLabel" -}}
{{- . | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gha-rs-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gha-rs-controller.name" . | quote }}
app.kubernetes.io/namespace: {{ include "gha-rs-controller.namespace" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Ours first, then those of .Values.labels that are not ours to give away. */}}
{{- define "gha-rs-controller.labels" -}}
helm.sh/chart: {{ include "gha-rs-controller.versionLabel" (printf "%s-%s" (include "gha-rs-controller.word" .) .Chart.Version) | quote }}
{{ include "gha-rs-controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ include "gha-rs-controller.word" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- include "gha-rs-controller.pairs" (dict "of" .Values.labels "reserved" (list
    "helm.sh/chart"
    "app.kubernetes.io/name"
    "app.kubernetes.io/namespace"
    "app.kubernetes.io/instance"
    "app.kubernetes.io/version"
    "app.kubernetes.io/part-of"
    "app.kubernetes.io/managed-by"
    "actions.github.com/controller-service-account-namespace"
    "actions.github.com/controller-service-account-name"
    "actions.github.com/controller-watch-single-namespace")) }}
{{- end }}

{{/* Labels of pods: what the selector wants, what tools look for, then .Values.podLabels. */}}
{{- define "gha-rs-controller.podLabels" -}}
{{ include "gha-rs-controller.selectorLabels" . }}
app.kubernetes.io/part-of: {{ include "gha-rs-controller.word" . }}
app.kubernetes.io/component: controller-manager
app.kubernetes.io/version: {{ include "gha-rs-controller.versionLabel" .Chart.Version | quote }}
{{- include "gha-rs-controller.pairs" (dict "of" .Values.podLabels "reserved" (list
    "app.kubernetes.io/name"
    "app.kubernetes.io/namespace"
    "app.kubernetes.io/instance"
    "app.kubernetes.io/part-of"
    "app.kubernetes.io/component"
    "app.kubernetes.io/version")) }}
{{- end }}

{{/* Labels of the objects that ARC's chart leaves without any: RBAC. */}}
{{- define "gha-rs-controller.rbacLabels" -}}
{{- if (.Values.additions).labels }}
  labels:
    {{- include "gha-rs-controller.labels" . | nindent 4 }}
{{- end }}
{{- end }}

{{/* Lines `key: "value"`, without the reserved keys and those whose value is null. */}}
{{- define "gha-rs-controller.pairs" -}}
{{- $reserved := .reserved | default list }}
{{- range $key, $value := .of }}
{{- if not (or (has $key $reserved) (kindIs "invalid" $value)) }}
{{ $key | quote }}: {{ include "gha-rs-controller.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* A plain value as text; whole numbers by their digits, however Helm has read them. */}}
{{- define "gha-rs-controller.text" -}}
{{- if kindIs "float64" . }}
{{- if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end }}
{{- else if not (kindIs "invalid" .) }}{{ . }}{{ end }}
{{- end }}

{{/* As "gha-rs-controller.text", but empty for zero: numbers whose zero means "not given". */}}
{{- define "gha-rs-controller.number" -}}
{{- $text := include "gha-rs-controller.text" . }}
{{- if ne $text "0" }}{{ $text }}{{ end }}
{{- end }}

{{- define "gha-rs-controller.replicas" -}}
{{- include "gha-rs-controller.number" .Values.replicaCount | default "1" }}
{{- end }}

{{/* "true", or empty: more than one replica, of which one works. */}}
{{- define "gha-rs-controller.elects" -}}
{{- if gt (int (include "gha-rs-controller.replicas" .)) 1 }}true{{ end }}
{{- end }}

{{/* The port of `:8080`; empty for "0" and for nothing: not served. */}}
{{- define "gha-rs-controller.port" -}}
{{- if and . (ne . "0") }}{{ regexFind "[0-9]+$" . }}{{ end }}
{{- end }}

{{/* Where probes are answered: as asked for, else with the addition on a port that is free. */}}
{{- define "gha-rs-controller.probeAddress" -}}
{{- $asked := (.Values.flags).healthProbeBindAddress }}
{{- if $asked }}{{ $asked }}
{{- else if (.Values.additions).probes }}
{{- $taken := list (include "gha-rs-controller.port" (.Values.metrics).controllerManagerAddr) (include "gha-rs-controller.port" (.Values.pprof).addr) }}
{{- $free := without (list "8081" "8082" "8083") (index $taken 0) (index $taken 1) }}
{{- printf ":%s" (first $free) }}
{{- end }}
{{- end }}

{{/* "true" with any of the three keys: one that the chart does not know must not ask for an address. */}}
{{- define "gha-rs-controller.wantsMetrics" -}}
{{- if pick (.Values.metrics | default dict) "controllerManagerAddr" "listenerAddr" "listenerEndpoint" }}true{{ end }}
{{- end }}
