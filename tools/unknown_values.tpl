{{/*
Made by `make generate` from values.schema.json and tools/unknown_values.tpl; do not edit.

Names the values that the chart does not know, for NOTES.txt: nothing is said when all are known.
An unknown value never fails an installation. What was probably meant is found by the letters and
pairs of letters that two names share, as src/runnerscale/chart_values/nearest.py explains.

The file is the same in both charts, with the values of both: named templates of Helm are global,
and one release may contain both charts as parts of a third.
*/}}

{{- define "runnerscale.unknownValues" -}}
{{- if (.Values.additions | default dict).unknownValueNotes -}}
{{- $chart := .Chart.Name -}}
{{- $all := include "runnerscale.knownValues" . | fromJson -}}
{{- if not (hasKey $all $chart) -}}
{{- /* renamed by `alias` of a third chart */ -}}
{{- $chart = ternary "gha-runner-scale-set" "gha-runner-scale-set-controller" (hasKey .Values "githubConfigUrl") -}}
{{- end -}}
{{- $known := get $all $chart -}}
{{- $found := dict "unknown" list "ignored" list -}}
{{- include "runnerscale.unknownValuesIn" (dict "values" .Values "tree" $known.tree "prefix" "" "found" $found) -}}
{{- if $found.unknown }}
{{- $others := list -}}
{{- range $known.paths -}}
{{- $name := splitList "." . | last -}}
{{- $features := include "runnerscale.nameFeatures" $name | splitList "," -}}
{{- $others = append $others (dict "path" . "parent" (trimSuffix $name .) "features" $features "twice" (has $name $known.twice)) -}}
{{- end }}
These values are not known to this chart and change nothing:
{{- range $index, $value := $found.unknown -}}
{{- if lt $index 20 }}
- {{ $value.path }}
{{- with include "runnerscale.nearestValue" (dict "key" $value.key "prefix" $value.prefix "others" $others) }} (did you mean {{ . }}?){{ end -}}
{{- end -}}
{{- end }}
{{- with sub (len $found.unknown) 20 | max 0 }}
- and {{ . }} more
{{- end -}}
{{- end -}}
{{- if $found.ignored }}
These values are accepted, since ARC's values files carry them, and ignored:
{{- range $found.ignored }}
- {{ . }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Writes into .found; the keys of free-form maps are the user's own and not looked at. */ -}}
{{- define "runnerscale.unknownValuesIn" -}}
{{- range $key, $value := .values -}}
{{- $shown := ternary $key (trunc 80 $key | quote) (regexMatch "^[A-Za-z0-9_-]{1,80}$" $key) -}}
{{- $path := print $.prefix $shown -}}
{{- if not (hasKey $.tree $key) -}}
{{- $_ := set $.found "unknown" (append $.found.unknown (dict "path" $path "key" $key "prefix" $.prefix)) -}}
{{- else -}}
{{- $below := get $.tree $key -}}
{{- if kindIs "string" $below -}}
{{- if $below -}}
{{- $_ := set $.found "ignored" (append $.found.ignored (printf "%s: %s" $path $below)) -}}
{{- end -}}
{{- else if kindIs "map" $value -}}
{{- include "runnerscale.unknownValuesIn" (dict "values" $value "tree" $below "prefix" (print $path ".") "found" $.found) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The known path whose last name is most like .key, or nothing. */ -}}
{{- define "runnerscale.nearestValue" -}}
{{- $have := dict -}}
{{- range include "runnerscale.nameFeatures" .key | splitList "," -}}{{- $_ := set $have . "" -}}{{- end -}}
{{- $best := "" -}}
{{- $bestScore := 0 -}}
{{- range $other := .others -}}
{{- $isNear := eq $other.parent $.prefix -}}
{{- if or $isNear (not $other.twice) -}}
{{- $shared := 0 -}}
{{- range $other.features -}}{{- if hasKey $have . -}}{{- $shared = add1 $shared -}}{{- end -}}{{- end -}}
{{- $score := div (mul 200 $shared) (add (len $have) (len $other.features)) -}}
{{- if ge $score (ternary @LIKENESS_MIN@ @ELSEWHERE_MIN@ $isNear) -}}
{{- $score = ternary (add $score @SAME_PARENT_BONUS@) $score $isNear -}}
{{- if gt $score $bestScore -}}{{- $best = $other.path -}}{{- $bestScore = $score -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $best -}}
{{- end -}}

{{- /* The letters (`a.`) and pairs of letters (`ab`, at the ends `<a` and `z>`) of a name. */ -}}
{{- define "runnerscale.nameFeatures" -}}
{{- $word := regexReplaceAll "[^A-Za-z0-9]" . "" | lower | trunc @WORD_LETTERS_MAX@ -}}
{{- if $word -}}
{{- $marked := printf "<%s>" $word -}}
{{- $features := concat (regexFindAll ".." $marked -1) (regexFindAll ".." (trimPrefix "<" $marked) -1) -}}
{{- range regexFindAll "." $word -1 -}}{{- $features = append $features (print . ".") -}}{{- end -}}
{{- uniq $features | join "," -}}
{{- end -}}
{{- end -}}

{{- define "runnerscale.knownValues" -}}
@KNOWN@
{{- end -}}
