// Package registryproxy stands before the chart's registry and decides who may do what in it.
//
// The registry itself knows one kind of user, who may do everything. Its pod shows only this proxy to the network. It
// guarantees that
//   - the controller's account may do everything, and each tenant's (see internal/registry) reads and writes the
//     repositories of its own Functions, deletes nothing and lists no repositories;
//   - copies of the runtimes' images, below rouse-base, can be read by all tenants, and added, but never changed: the tag of
//     a copy ends with the digest of its manifest, and another manifest is refused;
//   - layers are mounted from nowhere that the account may not read;
//   - a request that the distribution specification does not know is refused, as is one whose path could be read in two
//     ways;
//   - what an account does is bounded before anything of it is read: bytes, images and copies of bases by hour, requests by second and
//     at a time, open uploads; what takes files of the store costs bytes, too;
//   - manifests are read within a memory that accounts share, and are sent on if the registry can read them without much of its own;
//   - unknown callers send nothing, and are answered for the registry's health in turn by address.
//
// What is allowed is a pure function of account and request (Decide). Nothing is kept but what was done lately.
//
// Package store frees the space of what no image in the registry has any more, while the registry serves. It works on the directory of
// the registry's filesystem driver, beside the registry, and sees each request that names something in it before the registry does.
//
// Guarantees:
//   - A blob goes only when no manifest names it and nobody has named it in a request for as long as things are kept: that time is in the
//     file itself, so that it outlasts the process. A blob that a request names while it is looked at either stays, or is gone before the
//     registry gets the request, and is uploaded again.
//   - A manifest goes only when no tag, and no manifest with a tag, leads to it, and nobody has named it for as long.
//   - Nobody waits for a sweep: it holds a lock for the removal of one thing at a time.
//   - A sweep goes part by part of the blobs, so that memory is bounded whatever tenants push.
//   - A manifest that cannot be read stops a sweep before any blob is removed.
package registryproxy
