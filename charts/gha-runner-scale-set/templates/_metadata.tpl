{{/*
Labels, annotations and finalizers of the chart's own objects. What a later source says wins:
values `labels`/`annotations`, then `resourceMeta`, then what this chart needs for itself.
*/}}

{{/* Labels that every object has and nobody may change. YAML. */}}
{{- define "scale-set.common-labels" -}}
helm.sh/chart: {{ printf "gha-rs-%s" .Chart.Version | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/name: {{ include "scale-set.name" . | quote }}
app.kubernetes.io/instance: {{ include "scale-set.name" . | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: gha-rs
actions.github.com/scale-set-name: {{ include "scale-set.name" . | quote }}
actions.github.com/scale-set-namespace: {{ include "scale-set.namespace" . | quote }}
{{- end -}}

{{/* The labels of a user that may go anywhere: none of ours, none that only GitHub's controller sets.
     Call with (dict "root" $ "labels" MAP). Answers JSON. */}}
{{- define "scale-set.free-labels" -}}
{{- $reserved := append (include "scale-set.common-labels" .root | fromYaml | keys) "app.kubernetes.io/component" -}}
{{- $free := dict -}}
{{- range $key, $value := include "scale-set.text-map" .labels | fromJson -}}
{{- if not (or (has $key $reserved) (hasPrefix "actions.github.com/" $key)) -}}
{{- $_ := set $free $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $free -}}
{{- end -}}

{{/* The annotations of a user without those by which the controller finds the objects of this chart.
     Call with a map. Answers JSON. */}}
{{- define "scale-set.free-annotations" -}}
{{- $free := dict -}}
{{- range $key, $value := include "scale-set.text-map" . | fromJson -}}
{{- if not (or (hasPrefix "actions.github.com/cleanup-" $key) (eq "actions.github.com/values-hash" $key)) -}}
{{- $_ := set $free $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $free -}}
{{- end -}}

{{/* What resourceMeta says of one kind of object. Call with (dict "root" $ "meta" KEY). Answers JSON
     with `labels` and `annotations`, both always there. */}}
{{- define "scale-set.resource-meta" -}}
{{- $meta := index (.root.Values.resourceMeta | default dict) .meta | default dict -}}
{{- $labels := include "scale-set.text-map" $meta.labels | fromJson -}}
{{- $annotations := include "scale-set.text-map" $meta.annotations | fromJson -}}
{{- dict "labels" $labels "annotations" $annotations | toJson -}}
{{- end -}}

{{/* Several maps as one; what a later one says wins. Call with a list. Answers JSON. */}}
{{- define "scale-set.layered" -}}
{{- $all := dict -}}
{{- range $layer := . -}}
{{- range $key, $value := $layer -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/*
The metadata of an object that the controller may clean up: its finalizer keeps it until the runner set
is gone, because the controller needs Role and Secret to delete runners and the scale set at GitHub.
Call with (dict "root" $ "name" NAME "component" COMPONENT-OR-EMPTY "meta" RESOURCE-META-KEY).
*/}}
{{- define "scale-set.metadata" -}}
{{- $meta := include "scale-set.resource-meta" . | fromJson -}}
{{- $reserved := include "scale-set.common-labels" .root | fromYaml -}}
{{- if .component -}}
{{- $_ := set $reserved "app.kubernetes.io/component" .component -}}
{{- end -}}
{{- $free := include "scale-set.free-labels" (dict "root" .root "labels" .root.Values.labels) | fromJson -}}
{{- $annotations := include "scale-set.text-map" .root.Values.annotations | fromJson -}}
name: {{ .name | quote }}
namespace: {{ include "scale-set.namespace" .root | quote }}
labels:
  {{- include "scale-set.layered" (list $free $meta.labels $reserved) | fromJson | toYaml | nindent 2 }}
{{- with include "scale-set.layered" (list $annotations $meta.annotations) | fromJson }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
finalizers:
  - actions.github.com/cleanup-protection
{{- end -}}
