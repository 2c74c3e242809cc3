// Package settingswatch applies changed settings to running processes: two ConfigMaps of their own namespace, and the annotation with which one
// Function or Subscription is debugged.
//
// It guarantees:
//   - A change is in force as soon as the API server reports it, without a restart.
//   - Invalid settings change nothing: the last valid settings, or those of the command line before there were any, stay in
//     force. The log, the metric rouse_settings_valid and, where the process announces them, an Event report the error and what
//     to do.
//   - It needs only the permission to read these two ConfigMaps, and keeps at most 256 KiB of a ConfigMap of any size.
package settingswatch
