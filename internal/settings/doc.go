// Package settings reads the two files that change an installation while it runs: function-config.yaml, by Kyma's names and
// some of Rouse's own, and log-config.yaml. It is pure: watching the ConfigMaps and applying the settings is done elsewhere.
//
// It guarantees:
//   - A file is accepted or rejected as a whole. An error names the field and the valid values.
//   - No field is dropped silently: an unknown one is rejected with the closest known one, and a field of
//     Kyma's file that has no effect here is listed in Settings.Unused.
//   - A file is at most MaxBytes long, and its numbers and durations are within the limits of the processes.
//   - Files contain no secrets: addresses with a password are rejected.
package settings
