package main

import (
	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/scaler"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// countCalls makes what counting calls over HTTP takes.
func countCalls(o scaler.HTTPOptions, endpoints scaler.Endpoints, listings scaler.Listings, idleness scaler.Idleness, log logr.Logger) *scaler.HTTP {
	return &scaler.HTTP{
		Gateways: httpload.NewGateways(endpoints, httpload.GatewaysOptions{Service: o.GatewayService}, log.WithName("gateways")),
		Pods:     httpload.NewPods(httpload.PodsOptions{}),
		Listings: listings,
		Idleness: idleness,
	}
}
