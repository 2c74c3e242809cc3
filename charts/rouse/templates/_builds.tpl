{{/* The controller's flags for builds, the registry of their images, and trusted certificates. */}}
{{- define "rouse.buildArgs" -}}
- --builder-image={{ include "rouse.image" . }}
- --release-namespace={{ .Release.Namespace }}
{{- if ne (include "rouse.registry" .) "none" }}
- --registry-secret={{ include "rouse.registrySecret" . }}
{{- end }}
{{- with .Values.builds }}
- --max-simultaneous-builds={{ .maxSimultaneous }}
- --builds-per-namespace={{ .perNamespace | default 0 }}
- --default-build-profile={{ .defaultProfile }}
- --max-image-size={{ .maxImageSize }}
- --build-volume-size={{ .volumeSize }}
- --build-deadline={{ .deadlineSeconds }}s
{{- end }}
{{- with .Values.registry.internal.garbageCollection }}
{{- if and .enabled (eq (include "rouse.registry" $) "internal") }}
- --image-gc-registry={{ include "rouse.name" (dict "root" $ "component" "registry") }}
- --image-gc-interval={{ .interval }}
- --image-gc-grace={{ .grace }}
{{- end }}
{{- end }}
{{- with .Values.controller.deniedCIDRs }}
- --denied-cidrs={{ join "," . }}
{{- end }}
{{- if .Values.caBundle }}
- --ca-bundle=/etc/rouse/ca/ca.crt
{{- end }}
{{- end -}}

{{/* Only the Function controller uses the certificates; the operator passes them to the controller that it installs. */}}
{{- define "rouse.caMount" -}}
{{- if and .Values.caBundle (ne (include "rouse.operated" .) "true") -}}
- name: ca
  mountPath: /etc/rouse/ca
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "rouse.caVolume" -}}
{{- if include "rouse.caMount" . -}}
- name: ca
  configMap:
    name: {{ include "rouse.fullname" . }}-ca
{{- end -}}
{{- end -}}
