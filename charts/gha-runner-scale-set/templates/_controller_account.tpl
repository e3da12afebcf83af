{{/*
The ServiceAccount that the controller runs as; it gets the rights of the manager Role. Saying it in the
values is the norm: it needs no cluster, so that `helm template` and GitOps tools work. What is not said is
read from the labels of the controller's Deployment, wherever in the cluster that is.
*/}}

{{/* Answers JSON with `name` and `namespace`. */}}
{{- define "scale-set.controller-account" -}}
{{- $given := .Values.controllerServiceAccount | default dict -}}
{{- $name := include "scale-set.text" $given.name -}}
{{- $namespace := include "scale-set.text" $given.namespace -}}
{{- if not (and $name $namespace) -}}
{{- $labels := include "scale-set.controller-labels" . | fromJson -}}
{{- if not $name }}{{ $name = include "scale-set.controller-label" (dict "labels" $labels "part" "name") }}{{ end -}}
{{- if not $namespace }}{{ $namespace = include "scale-set.controller-label" (dict "labels" $labels "part" "namespace") }}{{ end -}}
{{- end -}}
{{- dict "name" $name "namespace" $namespace | toJson -}}
{{- end -}}

{{/* Half of the account's address, from a label. Call with (dict "labels" MAP "part" "name"). */}}
{{- define "scale-set.controller-label" -}}
{{- $key := printf "actions.github.com/controller-service-account-%s" .part -}}
{{- $value := index .labels $key -}}
{{- if not $value -}}
{{- fail (printf "controllerServiceAccount.%s is not set, and the Deployment of the controller has no label %s to read it from. Set controllerServiceAccount.name and .namespace, or upgrade the controller's chart." .part $key) -}}
{{- end -}}
{{- $value -}}
{{- end -}}

{{/* The labels of the Deployment of the controller that is responsible for this namespace. Answers JSON. */}}
{{- define "scale-set.controller-labels" -}}
{{- $namespace := include "scale-set.namespace" . -}}
{{- $remedy := "Set controllerServiceAccount.name and controllerServiceAccount.namespace." -}}
{{- $everywhere := list -}}
{{- $single := list -}}
{{- $here := list -}}
{{- $places := list -}}
{{- $watched := list -}}
{{- range $deployment := (lookup "apps/v1" "Deployment" "" "").items -}}
{{- $labels := $deployment.metadata.labels | default dict -}}
{{- if eq (index $labels "app.kubernetes.io/part-of" | default "") "gha-rs-controller" -}}
{{- $places = append $places (printf "%s/%s" $deployment.metadata.namespace $deployment.metadata.name) -}}
{{- if hasKey $labels "actions.github.com/controller-watch-single-namespace" -}}
{{- $single = append $single $labels -}}
{{- $watches := index $labels "actions.github.com/controller-watch-single-namespace" -}}
{{- $watched = append $watched $watches -}}
{{- if eq $watches $namespace -}}
{{- $here = append $here $labels -}}
{{- end -}}
{{- else -}}
{{- $everywhere = append $everywhere $labels -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $places -}}
{{- fail (printf "no controller was found: no Deployment in the cluster has the label app.kubernetes.io/part-of=gha-rs-controller, or there is no cluster to look in (helm template, GitOps). Install the controller's chart first, or: %s" $remedy) -}}
{{- end -}}
{{- if and $everywhere $single -}}
{{- fail (printf "controllers for one namespace and for the whole cluster are installed side by side, which is not supported: %s. Remove one kind, or: %s" (join ", " $places) $remedy) -}}
{{- end -}}
{{- if gt (len $everywhere) 1 -}}
{{- fail (printf "more than one controller for the whole cluster was found: %s. It is ambiguous which one is meant. %s" (join ", " $places) $remedy) -}}
{{- end -}}
{{- if and $single (not $here) -}}
{{- fail (printf "no controller watches namespace %q: those found watch %s. Install the release into one of these, install a controller for this namespace, or: %s" $namespace (join ", " (uniq $watched)) $remedy) -}}
{{- end -}}
{{- if gt (len $here) 1 -}}
{{- fail (printf "more than one controller watches namespace %q: %s. It is ambiguous which one is meant. %s" $namespace (join ", " $places) $remedy) -}}
{{- end -}}
{{- concat $everywhere $here | first | toJson -}}
{{- end -}}
