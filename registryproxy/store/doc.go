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
package store
