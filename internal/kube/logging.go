package kube

import (
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// SetLogger makes controller-runtime and client-go log through logger. Neither can be configured in another way: client-go's
// watches and its leader election log through klog.
func SetLogger(logger logr.Logger) {
	log.SetLogger(logger)
	klog.SetLogger(logger)
}
