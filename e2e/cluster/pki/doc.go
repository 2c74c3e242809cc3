// Package pki makes the certificates, keys and kubeconfigs of one cluster. They live as long as the cluster does.
package pki
