// Package gitops sees objects as tools for GitOps do: their health by kstatus' own library and by the Lua script for Argo CD in
// docs/gitops.md, and drift by server-side apply as Flux' kustomize-controller does it.
package gitops
