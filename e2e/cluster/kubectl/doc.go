// Package kubectl talks to the cluster with the kubectl that was built with it.
package kubectl
