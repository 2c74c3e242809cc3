{{/* "true" when uninstalling deletes the CRDs, so that the objects of their kinds must go first. */}}
{{- define "rouse.uninstallsResources" -}}
{{ and .Values.crds.enabled (not .Values.crds.keep) }}
{{- end -}}

{{- define "rouse.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{- define "rouse.uninstalledHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
