{{/*
How what the user wrote and what a container mode needs become one. There is one rule: an entry is known by
its name, and where both name the same entry the user's is kept. The templates here know nothing of runners.
All take and answer lists of maps that have a `name`; answers are JSON.
*/}}

{{/* The entry with a name, or {}. Call with (dict "list" LIST "name" NAME). */}}
{{- define "scale-set.named" -}}
{{- $found := dict -}}
{{- range $entry := .list -}}
{{- if eq $entry.name $.name -}}
{{- $found = $entry -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The entries without those of some names. Call with (dict "list" LIST "names" NAMES). */}}
{{- define "scale-set.without" -}}
{{- $rest := list -}}
{{- range $entry := .list -}}
{{- if not (has $entry.name $.names) -}}
{{- $rest = append $rest $entry -}}
{{- end -}}
{{- end -}}
{{- toJson $rest -}}
{{- end -}}

{{/* The user's entries, then those generated ones whose name the user does not use: for variables and
     mounts, where order is seen. Call with (dict "given" LIST "generated" LIST). */}}
{{- define "scale-set.given-first" -}}
{{- $all := list -}}
{{- $names := list -}}
{{- range $entry := .given -}}
{{- $all = append $all $entry -}}
{{- $names = append $names $entry.name -}}
{{- end -}}
{{- range $entry := .generated -}}
{{- if not (has $entry.name $names) -}}
{{- $all = append $all $entry -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The generated entries, each replaced by the user's of that name, then the user's other ones: for
     volumes. Call with (dict "given" LIST "generated" LIST). */}}
{{- define "scale-set.generated-first" -}}
{{- $all := list -}}
{{- $names := list -}}
{{- range $entry := .generated -}}
{{- $given := include "scale-set.named" (dict "list" $.given "name" $entry.name) | fromJson -}}
{{- $all = append $all (ternary $given $entry (not (empty $given))) -}}
{{- $names = append $names $entry.name -}}
{{- end -}}
{{- range $entry := .given -}}
{{- if not (has $entry.name $names) -}}
{{- $all = append $all $entry -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* A container of ours with the user's container of the same name laid over it: each field of the user
     replaces ours, and null takes it away; variables and mounts are merged by name. Call with (dict "given" MAP
     "generated" MAP). */}}
{{- define "scale-set.overlaid" -}}
{{- $container := dict -}}
{{- range $field, $value := include "scale-set.layered" (list .generated .given) | fromJson -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $container $field $value -}}
{{- end -}}
{{- end -}}
{{- range $field := list "env" "volumeMounts" -}}
{{- $entries := include "scale-set.given-first" (dict "given" (index $.given $field) "generated" (index $.generated $field)) | fromJsonArray -}}
{{- if $entries -}}
{{- $_ := set $container $field $entries -}}
{{- end -}}
{{- end -}}
{{- toJson $container -}}
{{- end -}}
