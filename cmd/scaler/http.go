package main

import (
	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/scaler"
	"github.com/rouse-run/rouse/scaler/gateways"
	"github.com/rouse-run/rouse/scaler/pods"
)

// countCalls makes what counting calls over HTTP takes.
func countCalls(o scaler.HTTPOptions, endpoints scaler.Endpoints, listings scaler.Listings, idleness scaler.Idleness, log logr.Logger) *scaler.HTTP {
	return &scaler.HTTP{
		Gateways: gateways.New(endpoints, gateways.Options{Service: o.GatewayService}, log.WithName("gateways")),
		Pods:     pods.New(pods.Options{}),
		Listings: listings,
		Idleness: idleness,
	}
}
