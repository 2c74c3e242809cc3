{{/* The flags of the Function controller, wherever it runs. Settings that can change while it runs are in a ConfigMap. */}}
{{- define "rouse.functionArgs" -}}
{{ include "rouse.runtimeArgs" . }}
- --publisher-address={{ include "rouse.publisherURL" . }}
- --scaler-address={{ include "rouse.fullname" . }}-scaler.{{ .Release.Namespace }}.svc.cluster.local:9000
{{- if .Values.scaler.tls.enabled }}
- --scaler-authentication={{ include "rouse.fullname" . }}-scaler
{{- end }}
{{- if eq (include "rouse.servesExternalMetrics" .) "true" }}
- --external-metrics
{{- end }}
{{ include "rouse.buildArgs" . }}
{{- with include "rouse.functionNetworkPolicy" . }}
- {{ printf "--function-network-policy=%s" . | quote }}
{{- end }}
{{- if hasKey (.Values.functions | default dict) "triggerTypes" }}
- --trigger-types={{ join "," .Values.functions.triggerTypes }}
{{- end }}
{{- with include "rouse.standIns" . }}
- --stand-ins-per-namespace={{ . }}
- --stand-ins-priority-class={{ include "rouse.fullname" $ }}-stand-ins
{{- end }}
{{- end -}}

{{/* How many stand-ins a namespace may have; empty: none. */}}
{{- define "rouse.standIns" -}}
{{- with ((.Values.functions | default dict).standIns | default dict).perNamespace }}{{ int . }}{{ end -}}
{{- end -}}

{{/* "true" when an operator installs the Function controller as a Serverless specifies. */}}
{{- define "rouse.operated" -}}
{{ (.Values.operator | default dict).enabled | default false }}
{{- end -}}

{{/* The namespaces of Serverlesses, as a JSON list. */}}
{{- define "rouse.operatorNamespaces" -}}
{{ (.Values.operator | default dict).namespaces | default (list .Release.Namespace) | uniq | toJson }}
{{- end -}}

{{/* Roles that the operator binds to the Function controller's account. */}}
{{- define "rouse.functionRole" -}}
{{ include "rouse.fullname" . }}-functions
{{- end -}}

{{- define "rouse.leaderRole" -}}
{{ include "rouse.fullname" . }}-functions-leader
{{- end -}}

{{/* The operator's flags for installing the same Function controller as this chart. */}}
{{- define "rouse.installation" -}}
{{- $args := printf "%s\n%s\n%s" (include "rouse.sinkArgs" .) (include "rouse.functionArgs" .) (include "rouse.processArgs" .) | fromYamlArray -}}
{{- with include "rouse.gatewayService" . -}}
{{- $args = append $args (printf "--gateway-service=%s" .) -}}
{{- end -}}
namespaces: {{ include "rouse.operatorNamespaces" . }}
binding: {{ include "rouse.functionRole" . }}
roles:
  functions: {{ include "rouse.functionRole" . }}
  leader: {{ include "rouse.leaderRole" . }}
defaults:
  publisherAddress: {{ .Values.publisherAddress | default (include "rouse.publisherURL" .) | quote }}
  {{- with .Values.traceCollectorEndpoint }}
  traceCollectorEndpoint: {{ . | quote }}
  {{- end }}
  {{- with .Values.controller.defaultProfile }}
  profile: {{ . }}
  {{- end }}
  logLevel: {{ .Values.logLevel }}
  logFormat: {{ .Values.logFormat | default "json" }}
functionConfig: {{ include "rouse.functionConfig" . | fromYaml | toJson }}
logConfig: {{ include "rouse.logConfig" . | fromYaml | toJson }}
controller:
  image: {{ include "rouse.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  replicas: {{ .Values.controller.replicas }}
  args:
    {{- toYaml $args | nindent 4 }}
  {{- with include "rouse.processEnv" (dict "root" $ "resources" .Values.controller.resources) }}
  {{- . | nindent 2 }}
  {{- end }}
  resources:
    {{- toYaml .Values.controller.resources | nindent 4 }}
  {{- with .Values.caBundle }}
  caBundle: |
    {{- . | trim | nindent 4 }}
  {{- end }}
  {{- with include "rouse.priorityClass" . }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with .Values.podAnnotations }}
  podAnnotations: {{ toJson . }}
  {{- end }}
{{- if .Values.networkPolicies.enabled }}
networkPolicy:
  {{- with .Values.networkPolicies.metricsFrom }}
  ingress:
    - ports:
        - port: metrics
      from:
        {{- toYaml . | nindent 8 }}
  {{- else }}
  ingress: []
  {{- end }}
  egress:
    {{- include "rouse.clusterEgress" . | nindent 4 }}
    - ports: # Git servers and registries, on the ports that users configure
        - protocol: TCP
{{- end }}
{{- end -}}

{{/* Kyma's operator serves the same Serverlesses, and its Function controller the same Functions. */}}
{{- define "rouse.validateOperator" -}}
{{- if eq (include "rouse.operated" .) "true" -}}
{{- $namespaces := include "rouse.operatorNamespaces" . | fromJsonArray -}}
{{- if and (has "*" $namespaces) (gt (len $namespaces) 1) -}}
{{- fail "operator.namespaces has \"*\" beside others: set it to [\"*\"] for all namespaces, or name them" -}}
{{- end -}}
{{- $kymas := lookup "apps/v1" "Deployment" "kyma-system" "serverless-operator" -}}
{{- if and $kymas (gt (int ($kymas.spec | default dict).replicas) 0) -}}
{{- fail "operator.enabled is true, but Kyma's operator runs in this cluster (Deployment kyma-system/serverless-operator) and serves the same Serverlesses: stop it for good first, or set operator.enabled=false" -}}
{{- end -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- range $namespace := $namespaces -}}
{{- if and (ne $namespace "*") (ne $namespace $.Release.Namespace) (not (lookup "v1" "Namespace" "" $namespace)) -}}
{{- fail (printf "operator.namespaces has %s, which does not exist: create it with kubectl create namespace %s, or take it off the list" $namespace $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where each Function gets a NetworkPolicy. */}}
{{- define "rouse.boundsFunctions" -}}
{{ ((.Values.functions | default dict).networkPolicies | default dict).enabled | default false }}
{{- end -}}

{{/* A peer that selects pods of the release from any namespace, by namespace and labels: tenants can have pods with these labels, but
not a namespace of this name. */}}
{{- define "rouse.releasePods" -}}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ .root.Release.Namespace }}
podSelector:
  matchLabels:
    app.kubernetes.io/name: {{ .root.Chart.Name }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
  matchExpressions:
    - {key: app.kubernetes.io/component, operator: In, values: [{{ join ", " .components }}]}
{{- end -}}

{{/* The rules from which the controller makes a NetworkPolicy for each Function, as JSON; empty: none. */}}
{{- define "rouse.functionNetworkPolicy" -}}
{{- if eq (include "rouse.boundsFunctions" .) "true" -}}
{{- $policies := .Values.functions.networkPolicies -}}
{{- $publisher := dict
  "address" (printf "http://%s/publish" (include "rouse.publisherHost" .))
  "to" (list (include "rouse.releasePods" (dict "root" . "components" (list "eventbridge")) | fromYaml))
  "ports" (list 8080) -}}
{{- $callers := list "eventbridge" "gateway" "scaler" -}}
{{- if include "rouse.standIns" . -}}
{{- $callers = append $callers "controller" -}}
{{- end -}}
{{- dict
  "callers" (list (include "rouse.releasePods" (dict "root" . "components" $callers) | fromYaml))
  "from" ($policies.from | default list)
  "publisher" $publisher
  "dnsTo" ($policies.dnsTo | default list)
  "dnsPorts" (include "rouse.dnsPorts" . | fromJsonArray)
  "egress" ($policies.egress | default list) | toJson -}}
{{- end -}}
{{- end -}}

{{/* The rights on NetworkPolicies. A release that switches them off keeps the rights to delete those of the previous release; rendered
without a cluster, it has no rights. */}}
{{- define "rouse.functionNetworkPolicyVerbs" -}}
{{- if eq (include "rouse.boundsFunctions" .) "true" -}}
get, list, watch, create, patch, delete
{{- else -}}
{{- $creates := false -}}
{{- range $role := list (include "rouse.name" (dict "root" . "component" "controller")) (include "rouse.functionRole" .) -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" $role | default dict).rules -}}
{{- $creates = or $creates (and (has "networkpolicies" (.resources | default list)) (has "create" .verbs)) -}}
{{- end -}}
{{- end -}}
{{- if $creates -}}
list, delete
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The callers of gateways, as peers: the same as the callers of Functions, because otherwise gateways would bypass the policies of
Functions. A gateway is outside the namespaces of Functions, so a peer in a Function's own namespace becomes a peer in all. */}}
{{- define "rouse.functionCallers" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ .Chart.Name }}
      app.kubernetes.io/instance: {{ .Release.Name }}
    matchExpressions:
      - {key: app.kubernetes.io/component, operator: In, values: [controller, eventbridge]}
{{- range .Values.functions.networkPolicies.from }}
{{- if or .ipBlock (hasKey . "namespaceSelector") }}
{{ toYaml (list .) }}
{{- else }}
{{ toYaml (list (merge (dict "namespaceSelector" (dict)) .)) }}
{{- end }}
{{- end }}
{{- end -}}
