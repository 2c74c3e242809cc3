// Package sourcefiles handles the files of a Function whose source is a folder.
//
// It owns which files of a folder belong to the source, how a ConfigMap carries them and what identifies them, so that
// local mode, the command line, the controller and builds agree. It guarantees that no path leaves the Function's
// directory, that no link is followed out of the folder, and that bytes and numbers are bounded.
package sourcefiles
