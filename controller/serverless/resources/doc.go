// Package resources builds what a Serverless brings: the Function controller's Deployment, its settings, account, rights and network
// rules, from the Serverless and from what the installation says.
//
// It guarantees that the controller so made is the one that the chart would install by itself, and that nothing is built from a value
// that the controller would refuse.
package resources
