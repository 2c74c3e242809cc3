{{/* "true" where each Function gets a NetworkPolicy. */}}
{{- define "rouse.boundsFunctions" -}}
{{ ((.Values.functions | default dict).networkPolicies | default dict).enabled | default false }}
{{- end -}}

{{/* Pods of the release from wherever they are selected. Namespace and labels together: tenants can have pods with these labels, but
no namespace of this name. */}}
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
{{- dict
  "callers" (list (include "rouse.releasePods" (dict "root" . "components" (list "eventbridge" "gateway" "scaler")) | fromYaml))
  "from" ($policies.from | default list)
  "publisher" $publisher
  "dnsTo" ($policies.dnsTo | default list)
  "dnsPorts" (include "rouse.dnsPorts" . | fromJsonArray)
  "egress" ($policies.egress | default list) | toJson -}}
{{- end -}}
{{- end -}}

{{/* The rights on them. A release that switches them off has those to delete what the one before has made; rendered without a cluster
it has none. */}}
{{- define "rouse.functionNetworkPolicyVerbs" -}}
{{- if eq (include "rouse.boundsFunctions" .) "true" -}}
get, list, watch, create, patch, delete
{{- else -}}
{{- $before := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (include "rouse.name" (dict "root" . "component" "controller")) -}}
{{- range ($before | default dict).rules -}}
{{- if and (has "networkpolicies" (.resources | default list)) (has "create" .verbs) -}}
list, delete
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Who may have the gateways wake and call Functions, as peers: those who may call the Functions themselves, or the gateways would be a
way around their policies. A gateway is of no Function's namespace, so whom a Function lets in from its own is let in from all. */}}
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
