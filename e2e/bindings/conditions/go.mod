module reconciler.io/runtime

go 1.26.0

require k8s.io/apimachinery v0.30.2
