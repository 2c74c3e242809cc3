// Package gitops evaluates objects as GitOps tools do: their health by the library kstatus and by the Lua script for
// Argo CD in docs/gitops.md, and drift by server-side apply as Flux' kustomize-controller does.
package gitops
