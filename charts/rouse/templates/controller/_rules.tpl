{{/* The rights of the controllers in the cluster. */}}

{{/* What each of them needs. */}}
{{- define "rouse.sharedRules" -}}
- apiGroups: [serverless.kyma-project.io]
  resources: [functions]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions] # whether KEDA is there
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
# The objects that the controller makes of Functions.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
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
- apiGroups: [batch]
  resources: [jobs] # builds
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets] # input of builds and credentials of registries, beside each Function; what is read see below
  verbs: [create, patch, delete]
# Read access: why a Function's pod does not start, earlier versions, and the size of the cluster.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [events] # why there is no pod of a build
  verbs: [list]
- apiGroups: [apps]
  resources: [replicasets] # and which images they need
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
- apiGroups: [""]
  resources: [namespaces] # metadata: whose images are whose, also when one comes again under its name, and whether one is being deleted
  verbs: [get, list, watch]
# Metadata for all; the content only of those that Functions or their builds name.
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, list, watch]
{{- end -}}

{{/* Those of the controllers of Subscriptions, APIRules and activators, and of what looks after the versions of resources. */}}
{{- define "rouse.eventingRules" -}}
- apiGroups: [eventing.kyma-project.io]
  resources: [subscriptions]
  verbs: [get, list, watch, patch] # patch: the finalizer
- apiGroups: [eventing.kyma-project.io]
  resources: [subscriptions/status]
  verbs: [patch]
{{- if eq (include "rouse.servesV1alpha1" .) "true" }}
- apiGroups: [serverless.kyma-project.io]
  resources: [functions] # the repository of one that names a GitRepository
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
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices] # those that list activators; of others which pods and gateways are ready
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices/restricted] # OpenShift asks for it where addresses are those of pods
  verbs: [create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions] # in which versions objects may be stored
  resourceNames:
    - functions.serverless.kyma-project.io
    - subscriptions.eventing.kyma-project.io
    - apirules.gateway.kyma-project.io
    - serverlesses.operator.kyma-project.io
  verbs: [get]
{{- if eq (include "rouse.gatewayAPI" .) "true" }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways] # which hosts they have
  verbs: [get, list, watch]
{{- end }}
{{- end -}}
