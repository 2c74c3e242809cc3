// Package orders proves that the files of samples/orders, and of samples/shop around them, do what their README says, wherever they run: it knows a
// running Rouse only by the verbs of the command rouse, so that one and the same proof holds in local mode and on a
// cluster.
//
// It needs the Functions to be there, and leaves nothing behind: no dead letter, no awake Function.
package orders
