// Package standin keeps generic pods ready in the namespaces that ask for them, and lets one serve a Function that wakes
// until the Function's own pod is ready.
//
//	announcement --> decide --> load the environment into a stand-in --> label it like the Function's pods
//	                                                                      |
//	own pod ready, a minute over, or the Function gone --> delete it <----+--> a new stand-in takes its place
//
// The wake of the Function's own pod begins as ever: a stand-in only bridges the time until it is ready, and without one
// nothing is worse.
//
// It guarantees that
//   - a stand-in serves one Function in its life, of its own namespace, and is deleted afterwards;
//   - it gets the environment that the Function's own pod has, from that Function's Deployment, and serves no Function whose
//     pod would differ in anything else: volumes, security context, image, or which NetworkPolicies select it;
//   - only this process can hand a Function over: each stand-in has a key of its own, which is in no object and is sent once;
//   - the Function's Service leads to a stand-in only once its handler is loaded;
//   - a namespace has no more stand-ins than its annotation and the installation allow.
//
// Keys are in memory. Stand-ins that an earlier process made are replaced.
package standin
