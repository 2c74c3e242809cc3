// Package registryproxy authorizes the requests to the chart's registry.
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
// Authorization is a pure function of account and request (Decide). The only state is recent usage.
//
// A Store collects garbage while the registry serves. It works on the directory of the registry's filesystem driver, and sees each request
// before the registry does. It guarantees that
//   - a blob is deleted only when no manifest refers to it and no request named it within the retention time, which is recorded in the file
//     itself and survives restarts; a blob that a request names during the check either stays, or is deleted before the registry gets the
//     request, so that it is uploaded again;
//   - a manifest is deleted only when no tag, and no tagged manifest, refers to it, and no request named it within the retention time;
//   - requests do not wait for a sweep, which holds a lock for one deletion at a time;
//   - a sweep handles blobs in parts, so that its memory is bounded whatever tenants push;
//   - an unreadable manifest stops a sweep before any blob is deleted.
package registryproxy
