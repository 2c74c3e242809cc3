// Package settings reads the two files that change an installation while it runs: function-config.yaml, by Kyma's names and
// some of Rouse's own, and log-config.yaml. It is pure: what watches the ConfigMaps and what follows the settings are elsewhere.
//
// It guarantees:
//   - A file is good or bad as a whole. What is bad is named by its field, with what it may be instead.
//   - No field is dropped silently: an unknown one is rejected with the closest known one, and one that is
//     Kyma's and means nothing here is listed in Settings.Unused.
//   - A file is at most MaxBytes long, and its numbers and durations are within the limits of the processes.
//   - Nothing secret belongs in it: addresses with a password are refused.
package settings
