{{/*
What the objects of the Prometheus operator have in common.
*/}}

{{/* Listener pods, which the controller makes in its own namespace; with several controllers in it
each has its own. */}}
{{- define "gha-rs-controller.listenerLabels" -}}
app.kubernetes.io/part-of: gha-runner-scale-set
app.kubernetes.io/component: runner-scale-set-listener
{{- with (.Values.flags).watchSingleNamespace }}
actions.github.com/scale-set-namespace: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Context: root, of (the values of the monitor). Its labels are how an operator chooses monitors. */}}
{{- define "gha-rs-controller.monitorLabels" -}}
{{ include "gha-rs-controller.labels" .root }}
{{- include "gha-rs-controller.pairs" (dict "of" .of.labels "reserved" (include "gha-rs-controller.labels" .root | fromYaml | keys)) }}
{{- end }}

{{/* How often, and what is done with what was read. Context: the values of the monitor. */}}
{{- define "gha-rs-controller.scraping" -}}
{{- /* The metrics name the namespace of their scale set; the pod's own must not take its place. */}}
honorLabels: true
{{- with .interval }}
interval: {{ . | quote }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . | quote }}
{{- end }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
