// Package builder makes the image of a Function: it runs inside the runtime's image, puts source and
// dependencies into the Function's directory, and adds that directory to the image as one layer.
//
// It owns everything between a build.Plan and a build.Result: the source, the check that it compiles, npm and
// pip, the layer, and what is pushed. It guarantees that
//   - the same plan gives the same image, byte for byte, as long as its packages are the same;
//   - only the new layer, the configuration and the manifest are uploaded: the runtime's layers are mounted from
//     a copy in the target's registry, rouse-base/<host>/<repository>, which is made once;
//   - every failure has a Reason, and a message with the cause and the remedy;
//   - what it starts ends with it, and no credentials reach a log, a message or the image.
package builder
