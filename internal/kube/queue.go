package kube

import "sigs.k8s.io/controller-runtime/pkg/config"

// Controllers is what all controllers have in common: the plain work queue. controller-runtime's priority queue, its default,
// may hang at the end of the process before version 0.25 (https://github.com/kubernetes-sigs/controller-runtime/issues/3538).
func Controllers() config.Controller { return config.Controller{UsePriorityQueue: new(false)} }
