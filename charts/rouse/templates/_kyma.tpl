{{/* Where publishers find the eventbridge. */}}
{{- define "rouse.publisherHost" -}}
{{ include "rouse.fullname" . }}-eventbridge.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}

{{/* Checks that need the cluster. A chart that is rendered without one looks up nothing and passes: the controller checks NATS itself. */}}
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
