// Package resources builds the parts of a Serverless, which are the Function controller's Deployment, settings, account,
// role bindings and network rules, from the Serverless and the description of the installation.
//
// It guarantees that the resulting controller equals the one that the chart installs by itself, and that nothing is built
// from a value that the controller would reject.
package resources
