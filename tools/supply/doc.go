// Package supply tests the scripts around tools that others keep: vulncheck.sh around govulncheck, and signoff.sh around git log.
package supply
