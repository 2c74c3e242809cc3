{{/* Names and labels. Every helper that renders one component takes (dict "root" $ "component" "name"). */}}

{{- define "rouse.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rouse.name" -}}
{{ include "rouse.fullname" .root }}-{{ .component }}
{{- end -}}

{{- define "rouse.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "rouse.labels" -}}
{{ include "rouse.selectorLabels" . }}
app.kubernetes.io/part-of: rouse
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "rouse.metadata" -}}
name: {{ include "rouse.name" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "rouse.labels" . | nindent 2 }}
{{- end -}}

{{- define "rouse.clusterMetadata" -}}
name: {{ include "rouse.name" . }}
labels:
  {{- include "rouse.labels" . | nindent 2 }}
{{- end -}}

{{/* Images. */}}

{{- define "rouse.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "rouse.image" -}}
{{ .Values.image.repository }}:{{ include "rouse.tag" . }}{{ include "rouse.digest" (dict "root" . "name" "rouse") }}
{{- end -}}

{{/* The digest of an image of this release, with its @, only for the tag of the release. */}}
{{- define "rouse.digest" -}}
{{- with get (.root.Values.image.digests | default dict) .name -}}
{{- if not $.root.Values.image.tag -}}
@{{ . }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One --runtime-image flag for each runtime. A runtime that is null was removed: Helm drops it from the values, but not with
--reuse-values. */}}
{{- define "rouse.runtimeArgs" -}}
{{- $beside := regexReplaceAll "[^/]+$" .Values.image.repository "" -}}
{{- $args := list -}}
{{- range $runtime, $image := .Values.runtimes -}}
{{- if not (kindIs "invalid" $image) -}}
{{- $args = append $args (printf "- --runtime-image=%s=%s" $runtime ($image | default (printf "%srouse-runtime-%s:%s%s" $beside $runtime (include "rouse.tag" $) (include "rouse.digest" (dict "root" $ "name" (printf "rouse-runtime-%s" $runtime)))))) -}}
{{- end -}}
{{- end -}}
{{ join "\n" $args }}
{{- end -}}

{{/* Settings of every pod of the release: the restricted Pod Security level, and scheduling that prefers to spread. */}}

{{- define "rouse.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "rouse.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "rouse.podTemplateMetadata" -}}
labels:
  {{- include "rouse.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/part-of: rouse
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The PriorityClass of the release's pods; empty: none. Without a configured name, the name of the chart's class contains its value,
because the value of a class cannot change. priorityClassName is an earlier chart's value for the name of an existing class. */}}
{{- define "rouse.priorityClass" -}}
{{- $class := .Values.priorityClass | default dict -}}
{{- if .Values.priorityClassName -}}
{{ .Values.priorityClassName }}
{{- else if and $class.create (not $class.name) -}}
{{ printf "%s-%d" (include "rouse.fullname" .) (int $class.value) }}
{{- else -}}
{{ $class.name }}
{{- end -}}
{{- end -}}

{{/* "true" where the chart creates that class. */}}
{{- define "rouse.createsPriorityClass" -}}
{{ and (.Values.priorityClass | default dict).create (not .Values.priorityClassName) }}
{{- end -}}

{{- define "rouse.scheduling" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "rouse.selectorLabels" . | nindent 8 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with include "rouse.priorityClass" .root }}
{{- /* Uninstalling deletes the release's class, too, and a pod that names it would be refused. */}}
{{- if not (and $.afterwards (eq (include "rouse.createsPriorityClass" $.root) "true")) }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The ports of every process of the release. Profiles are on loopback, which Services and other pods do not reach. */}}
{{- define "rouse.processArgs" -}}
- --metrics-address=:9090
{{- if (.Values.profiling | default dict).enabled }}
- --pprof-address=127.0.0.1:6060
{{- end }}
{{- with include "rouse.fipsArg" . }}
{{ . }}
{{- end }}
{{- end -}}

{{/* The environment of a process in Go. It takes (dict "root" $ "resources" the container's). */}}
{{- define "rouse.processEnv" -}}
{{- with printf "%s\n%s" (include "rouse.memoryVariable" .resources) (include "rouse.fipsVariable" .root) | trim -}}
env:
  {{- . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* FIPS 140-3. YAML takes on and off for true and false. */}}
{{- define "rouse.fipsMode" -}}
{{- $mode := (.Values.fips | default dict).mode -}}
{{- if kindIs "bool" $mode -}}
{{ ternary "on" "off" $mode }}
{{- else -}}
{{ $mode | default "off" }}
{{- end -}}
{{- end -}}

{{/* The settings of Go. Package internal/fips passes the same to builds. */}}
{{- define "rouse.fipsVariable" -}}
{{- $mode := include "rouse.fipsMode" . -}}
{{- if ne $mode "off" -}}
- name: GODEBUG
  value: fips140={{ $mode }}{{ if eq $mode "only" }},tlsmlkem=0{{ end }}
{{- end -}}
{{- end -}}

{{/* A process of the release does not start without it. */}}
{{- define "rouse.fipsArg" -}}
{{- $mode := include "rouse.fipsMode" . -}}
{{- if ne $mode "off" -}}
- --fips-mode={{ $mode }}
{{- end -}}
{{- end -}}

{{/* Go's garbage collector works harder from nine tenths of the memory limit on, so that the process is not killed at the limit. */}}
{{- define "rouse.memoryVariable" -}}
{{- with (.limits | default dict).memory -}}
- name: GOMEMLIMIT
  value: {{ div (mul 9 (include "rouse.bytes" .)) 10 | quote }}
{{- end -}}
{{- end -}}

{{/* A quantity like 700Mi in bytes. */}}
{{- define "rouse.bytes" -}}
{{- $quantity := toString . -}}
{{- $number := regexFind "^[0-9]+" $quantity -}}
{{- $unit := trimPrefix $number $quantity -}}
{{- $units := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mul (int64 $number) (get $units $unit) -}}
{{- end -}}
