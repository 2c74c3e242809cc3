// Package builder makes the image of a Function in three steps, each in a container of its own that has no
// credentials but those it needs: Fetch gets the source from its repository, Install puts the dependencies beside it
// inside the runtime's image and packs both as one layer, and Push adds the layer to the runtime's image. In a language
// that is compiled, Install makes a binary there, and Push adds that to a base of the builder's own.
//
// It owns everything between a build.Plan and a build.Result: the source, the check that it compiles, the package
// manager or compiler, the layer, and what is pushed. It guarantees that
//   - the same plan gives the same image, byte for byte, as long as its packages are the same;
//   - scripts of packages, which are untrusted, run where no credentials are but the package registry's, and
//     nothing of theirs reaches Push but files below the Function's directory;
//   - a base with a digest is that base, and no tag in the target's registry is ever read;
//   - only the new layer, the configuration and the manifest are uploaded: the runtime's layers are mounted from
//     a copy in the target's registry, rouse-base/<host>/<repository>, which is made once;
//   - every failure has a Reason, and a message with the cause and the remedy, that holds nothing of any file
//     outside the source;
//   - what it starts ends with it, and no credentials reach a log, a message or the image.
package builder
