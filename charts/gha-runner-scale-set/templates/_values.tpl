{{/*
Reading values whatever kind they came as: a value from a file is a float64, one from --set an
int64, one from --set-string a string, and each may be null. Everything else in this chart reads
scalars through these, so that 98765432 never becomes 9.8765432e+07.
*/}}

{{/* Any scalar as the text that the user wrote; null is the empty text. */}}
{{- define "scale-set.text" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* A map whose values are texts, as labels and annotations must be; keys with null are left out.
     Answers JSON. */}}
{{- define "scale-set.text-map" -}}
{{- $texts := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $texts $key (include "scale-set.text" $value) -}}
{{- end -}}
{{- end -}}
{{- toJson $texts -}}
{{- end -}}

{{/* A number of runners as digits, or nothing where it is unset. A fraction is cut, as ever: 2.7 is 2.
     What is no number is refused in _checks.tpl. */}}
{{- define "scale-set.count" -}}
{{- $digits := include "scale-set.text" . | trim | regexFind "^[0-9]+" -}}
{{- regexReplaceAll "^0+([0-9])" $digits "${1}" -}}
{{- end -}}

{{/* The container mode that is in force; empty for the default mode, which `none` means too. Other words
     are refused in _checks.tpl. */}}
{{- define "scale-set.mode" -}}
{{- $type := include "scale-set.text" ((.Values.containerMode | default dict).type) -}}
{{- if has $type (list "dind" "kubernetes" "kubernetes-novolume") -}}
{{- $type -}}
{{- end -}}
{{- end -}}

{{/* "true" in the two modes whose jobs run in pods of their own. */}}
{{- define "scale-set.in-kubernetes-mode" -}}
{{- if hasPrefix "kubernetes" (include "scale-set.mode" .) }}true{{ end -}}
{{- end -}}
