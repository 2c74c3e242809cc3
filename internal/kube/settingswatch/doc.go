// Package settingswatch has the processes follow their settings: two ConfigMaps of their own namespace, and the annotation with which one
// Function or Subscription is debugged.
//
// It guarantees:
//   - A change is in force as soon as the API server reports it, without a restart.
//   - What cannot be used changes nothing: the last good settings, or those of the command line before there were any, stay in
//     force. The log, the metric rouse_settings_valid and, where the process announces them, an Event say what is wrong and what
//     to do.
//   - The right to read these two ConfigMaps is enough, and of a ConfigMap of any size no more than 256 KiB are kept.
package settingswatch
