{{/* The rights of the controllers in the cluster. */}}

{{/* The rights that every controller needs. */}}
{{- define "rouse.sharedRules" -}}
- apiGroups: [serverless.kyma-project.io]
  resources: [functions]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions] # to detect KEDA
  resourceNames: [scaledobjects.keda.sh]
  verbs: [get, list, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* The Function controller's own. */}}
{{- define "rouse.functionRules" -}}
- apiGroups: [serverless.kyma-project.io]
  resources: [functions/status]
  verbs: [patch]
- apiGroups: [serverless.kyma-project.io]
  resources: [functions/finalizers] # owner references that block deletion
  verbs: [update]
# The objects that the controller creates for Functions.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets] # whether a Service selects the pods of the one that it names to be scaled
  verbs: [get]
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
{{- with include "rouse.functionNetworkPolicyVerbs" . }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies] # one for each Function
  verbs: [{{ . }}]
{{- end }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
{{- if eq (include "rouse.servesExternalMetrics" .) "true" }}
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale] # of a workload that sleeps and is no longer scaled
  verbs: [update]
{{- end }}
- apiGroups: [batch]
  resources: [jobs] # builds
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets] # input of builds and credentials of registries, in each Function's namespace; see below for the rights to read
  verbs: [create, patch, delete]
# Read access: why a Function's pod does not start, earlier versions, and the size of the cluster.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- if include "rouse.standIns" . }}
- apiGroups: [""]
  resources: [pods] # stand-ins
  verbs: [create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies] # whether they select a Function's pods and stand-ins alike
  verbs: [get, list, watch]
{{- end }}
- apiGroups: [""]
  resources: [events] # the reason why a build has no pod
  verbs: [list]
- apiGroups: [apps]
  resources: [replicasets] # and their images
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
- apiGroups: [""]
  resources: [namespaces] # metadata: the owners of images, also after a namespace is created again under its name, and deletions in progress
  verbs: [get, list, watch]
# Metadata for all; the content only of objects that Functions or their builds name.
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, list, watch]
{{- end -}}

{{/* The rights of the controllers of Subscriptions, APIRules, activators, and stored versions of resources. */}}
{{- define "rouse.eventingRules" -}}
- apiGroups: [eventing.kyma-project.io]
  resources: [subscriptions]
  verbs: [get, list, watch, patch] # patch: the finalizer
- apiGroups: [eventing.kyma-project.io]
  resources: [subscriptions/status]
  verbs: [patch]
- apiGroups: [rouse.run]
  resources: [schedules]
  verbs: [get, list, watch]
- apiGroups: [rouse.run]
  resources: [schedules/status]
  verbs: [patch]
{{- if eq (include "rouse.servesDoors" .) "true" }}
- apiGroups: [rouse.run]
  resources: [doors]
  verbs: [get, list, watch]
- apiGroups: [rouse.run]
  resources: [doors/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets] # metadata for all; the content only of those that Doors name
  verbs: [get, list, watch]
{{- end }}
{{- if eq (include "rouse.servesV1alpha1" .) "true" }}
- apiGroups: [serverless.kyma-project.io]
  resources: [functions] # the repositories of Functions with a GitRepository
  verbs: [patch]
- apiGroups: [serverless.kyma-project.io]
  resources: [gitrepositories]
  verbs: [get, list, watch]
{{- end }}
{{- if eq (include "rouse.servesAPIRules" .) "true" }}
- apiGroups: [gateway.kyma-project.io]
  resources: [apirules]
  verbs: [get, list, watch]
- apiGroups: [gateway.kyma-project.io]
  resources: [apirules/status]
  verbs: [patch]
{{- end }}
- apiGroups: [apps]
  resources: [deployments, statefulsets] # of Functions, and of Services that name them, which wake
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [update]
- apiGroups: [keda.sh]
  resources: [scaledobjects] # whether they are paused
  verbs: [get]
{{- if eq (include "rouse.servesExternalMetrics" .) "true" }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers] # of what wakes without KEDA
  verbs: [get]
{{- end }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices] # of activators, and to read ready pods and gateways
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices/restricted] # OpenShift requires it for addresses of pods
  verbs: [create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions] # their stored versions
  resourceNames:
    - functions.serverless.kyma-project.io
    - subscriptions.eventing.kyma-project.io
    - schedules.rouse.run
    - doors.rouse.run
    - apirules.gateway.kyma-project.io
    - serverlesses.operator.kyma-project.io
  verbs: [get]
{{- if eq (include "rouse.gatewayAPI" .) "true" }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways] # their hosts
  verbs: [get, list, watch]
{{- end }}
{{- end -}}
