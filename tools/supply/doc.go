// Package supply tests the scripts around third-party tools: vulncheck.sh around govulncheck, and signoff.sh around git
// log.
package supply
