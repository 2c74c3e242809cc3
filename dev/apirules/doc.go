// Package apirules is the gateways' part for APIRules in local mode: it serves those of the folder at one port of this machine.
//
//	folder --Apply--> wanted --internal/exposure--> gateway/expose <-- gateway/entrance <-- client of this machine
//	                                                     |
//	                                                   Serve: a Function, which it wakes
//
// Host, rules, tokens, CORS, headers and timeouts are judged by the packages that do so in a cluster. What there is around the APIRules
// is the folder: its Functions are the Services, whatever gateway an APIRule names has the domain localhost, and there are no
// authorizers.
//
// It guarantees:
//   - an APIRule that is only wrong just now, or whose file cannot be read, is served as it was, as a cluster does with one that it
//     refuses; what is wrong in one that a cluster accepts closes its host, or its rule alone;
//   - nothing but hosts of the folder's APIRules is answered, so that a page of another site that has its name resolve to this
//     machine gets 404.
package apirules
