{{/* The webhook that converts Functions of v1alpha1, in the controller. */}}

{{/* "true" when v1alpha1 is served. */}}
{{- define "rouse.servesV1alpha1" -}}
{{ ((.Values.functions | default dict).v1alpha1 | default dict).enabled | default false }}
{{- end -}}

{{- define "rouse.conversionName" -}}
{{ include "rouse.fullname" . }}-conversion
{{- end -}}

{{- define "rouse.conversionSecret" -}}
{{ .Values.functions.v1alpha1.secret | default (include "rouse.conversionName" .) }}
{{- end -}}

{{/* The conversion in the CRD of Functions. */}}
{{- define "rouse.conversion" -}}
strategy: Webhook
webhook:
  conversionReviewVersions: [v1]
  clientConfig:
    {{- if .Values.functions.v1alpha1.secret }}
    caBundle: {{ .Values.functions.v1alpha1.caBundle | b64enc }}
    {{- else }}
    {{- include "rouse.servingCertificate" (dict "root" . "name" (include "rouse.conversionName" .) "values" .Values.functions.v1alpha1) }}
    caBundle: {{ get .Values.functions.v1alpha1.made "ca.crt" | b64enc }}
    {{- end }}
    service:
      name: {{ include "rouse.conversionName" . }}
      namespace: {{ .Release.Namespace }}
      path: /convert/functions
      port: 443
{{- end -}}

{{- define "rouse.conversionArgs" -}}
{{- if eq (include "rouse.servesV1alpha1" .) "true" -}}
- --conversion-address=:9443
- --conversion-tls-cert=/etc/rouse/conversion-tls/tls.crt
- --conversion-tls-key=/etc/rouse/conversion-tls/tls.key
{{- end -}}
{{- end -}}

{{- define "rouse.conversionMount" -}}
{{- if eq (include "rouse.servesV1alpha1" .) "true" -}}
- name: conversion-tls
  mountPath: /etc/rouse/conversion-tls
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "rouse.conversionVolume" -}}
{{- if eq (include "rouse.servesV1alpha1" .) "true" -}}
- name: conversion-tls
  secret:
    secretName: {{ include "rouse.conversionSecret" . }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end -}}
{{- end -}}

{{- define "rouse.validateV1alpha1" -}}
{{- $old := (.Values.functions | default dict).v1alpha1 | default dict -}}
{{- if and $old.enabled (not .Values.crds.enabled) -}}
{{- fail "functions.v1alpha1.enabled is true, but crds.enabled is false: v1alpha1 is served by the CRD of the release. Set crds.enabled=true or functions.v1alpha1.enabled=false" -}}
{{- end -}}
{{- if ne (empty $old.secret) (empty $old.caBundle) -}}
{{- fail "functions.v1alpha1: secret and caBundle belong together, set both or, for a certificate that the chart makes, none" -}}
{{- end -}}
{{- if and $old.enabled (not $old.secret) (eq (include "rouse.makesCredentials" .) "false") -}}
{{- fail "functions.v1alpha1.enabled is true and credentials.madeBy is job: the CRD has to name the authority of the webhook's certificate, which a Job makes too late. Set functions.v1alpha1.secret and caBundle" -}}
{{- end -}}
{{- if and $old.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $old.caBundle)) -}}
{{- fail "functions.v1alpha1.caBundle has no certificate in PEM: pass the content of a file, with --set-file functions.v1alpha1.caBundle=/path/to/ca.crt" -}}
{{- end -}}
{{- if and .Values.crds.enabled (not $old.enabled) -}}
{{- include "rouse.validateEndOfV1alpha1" . -}}
{{- end -}}
{{- end -}}

{{/* With managed fields in a version that the CRD does not have, the API server refuses each server-side apply of the object, with an
unhelpful message. */}}
{{- define "rouse.validateEndOfV1alpha1" -}}
{{- $older := "serverless.kyma-project.io/v1alpha1" -}}
{{- $served := false -}}
{{- range ((lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "functions.serverless.kyma-project.io").spec | default dict).versions -}}
{{- if eq .name "v1alpha1" -}}{{- $served = true -}}{{- end -}}
{{- end -}}
{{- $left := list -}}
{{- if $served -}}
{{- range (lookup "serverless.kyma-project.io/v1alpha2" "Function" "" "").items -}}
{{- $name := printf "%s/%s" .metadata.namespace .metadata.name -}}
{{- range .metadata.managedFields -}}
{{- if eq .apiVersion $older -}}{{- $left = append $left $name | uniq -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $left -}}
{{- fail (printf "functions.v1alpha1.enabled is false, but %d Functions have managed fields of v1alpha1, as %s: without it they could not be applied server-side any more. With the release that is installed, convert their manifests and take these fields away: see \"To end it\" in docs/convert.md" (len .) (first .)) -}}
{{- end -}}
{{- end -}}
