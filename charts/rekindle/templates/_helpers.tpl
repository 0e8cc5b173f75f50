{{- define "rekindle.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "rekindle.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rekindle.labels" -}}
{{ include "rekindle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What the operator does to applications and for them: all of its rights but nodes and its Lease. */}}
{{- define "rekindle.rules" -}}
- apiGroups: [rekindle.dev]
  resources: [sparkapplications]
  verbs: [list, watch, patch, delete]
- apiGroups: [rekindle.dev]
  resources: [sparkapplications/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, delete]
{{- if ne (include "rekindle.nodeBlocks" .) "off" }}
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- end }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, create, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* on, dry-run or off: without Node objects nothing can be blocked. */}}
{{- define "rekindle.nodeBlocks" -}}
{{- if not (and .Values.watchNodes .Values.nodeBlocks.enabled) }}off{{ else if .Values.nodeBlocks.dryRun }}dry-run{{ else }}on{{ end -}}
{{- end }}

{{- define "rekindle.blockableNodes" -}}
{{- $pairs := list }}
{{- range $label, $value := .Values.nodeBlocks.nodeSelector }}{{ $pairs = append $pairs (printf "%s=%s" $label $value) }}{{ end -}}
{{ join "," $pairs }}
{{- end }}
