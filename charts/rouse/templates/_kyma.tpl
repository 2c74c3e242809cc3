{{/* The address of the eventbridge for publishers. */}}
{{- define "rouse.publisherHost" -}}
{{ include "rouse.fullname" . }}-eventbridge.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}

{{- define "rouse.publisherAliasArgs" -}}
{{- if (.Values.kyma | default dict).publisherAlias -}}
- --publisher-alias=kyma-system/eventing-publisher-proxy
- --publisher-service={{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-eventbridge
{{- end -}}
{{- end -}}

{{/* Checks that need the cluster. Without a cluster, lookups return nothing and the checks pass: the controller checks NATS itself. */}}
{{- define "rouse.validateKyma" -}}
{{- $kyma := .Values.kyma | default dict -}}
{{- $manager := lookup "apps/v1" "Deployment" "kyma-system" "eventing-manager" -}}
{{- if and $manager (gt (int ($manager.spec | default dict).replicas) 0) (not $kyma.allowEventingManager) -}}
{{- fail "Kyma's eventing-manager runs in this cluster (Deployment kyma-system/eventing-manager). It serves the same Subscriptions, and whenever it starts it deletes the consumers of others on its NATS, with the events that wait in them. Stop it for good first, or set kyma.allowEventingManager=true" -}}
{{- end -}}
{{- if and $kyma.publisherAlias (lookup "v1" "Namespace" "" "kube-system") -}}
{{- if not (lookup "v1" "Namespace" "" "kyma-system") -}}
{{- fail "kyma.publisherAlias is true, but there is no namespace kyma-system: create it with kubectl create namespace kyma-system, or set kyma.publisherAlias=false" -}}
{{- end -}}
{{- with lookup "v1" "Service" "kyma-system" "eventing-publisher-proxy" -}}
{{- $owner := .metadata.annotations | default dict -}}
{{- if or (ne (get $owner "meta.helm.sh/release-name") $.Release.Name) (ne (get $owner "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- fail "kyma.publisherAlias is true, but Service kyma-system/eventing-publisher-proxy exists and is not of this release: it is Kyma's own, and publishers reach Kyma by it. Delete it when Kyma's eventing is gone, or set kyma.publisherAlias=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" when the release has the CRD of APIRules. */}}
{{- define "rouse.installsAPIRules" -}}
{{ and .Values.crds.enabled ((.Values.apiRules | default dict).enabled | default false) }}
{{- end -}}

{{/* Kyma's API Gateway serves the same APIRules, with a CRD that has more versions than ours, and a webhook. */}}
{{- define "rouse.validateAPIRules" -}}
{{- $rules := .Values.apiRules | default dict -}}
{{- if and $rules.enabled (not (.Values.gateway | default dict).enabled) -}}
{{- fail "apiRules.enabled is true, but gateway.enabled is false: the gateways serve APIRules. Set gateway.enabled=true or apiRules.enabled=false" -}}
{{- end -}}
{{- $kymas := lookup "apps/v1" "Deployment" "kyma-system" "api-gateway-controller-manager" -}}
{{- if and $rules.enabled $kymas (gt (int ($kymas.spec | default dict).replicas) 0) -}}
{{- fail "apiRules.enabled is true, but Kyma's API Gateway runs in this cluster (Deployment kyma-system/api-gateway-controller-manager) and serves the same APIRules: set apiRules.enabled=false, or stop it for good first" -}}
{{- end -}}
{{- $names := dict -}}
{{- range $rules.authorizers -}}
{{- if hasKey $names .name -}}
{{- fail (printf "apiRules.authorizers: the name %s is there twice" .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- end -}}
{{- if eq (include "rouse.installsAPIRules" .) "true" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "apirules.gateway.kyma-project.io" -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $released := and (eq (get $annotations "meta.helm.sh/release-name") $.Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- if not (or $released (eq (get (.metadata.labels | default dict) "app.kubernetes.io/part-of") "rouse")) -}}
{{- fail "apiRules.enabled is true, but CustomResourceDefinition apirules.gateway.kyma-project.io exists and is not of Rouse: Kyma's API Gateway serves these APIRules. Set apiRules.enabled=false, or, when Kyma's API Gateway is gone for good, save the APIRules and delete the CustomResourceDefinition, which deletes them" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
