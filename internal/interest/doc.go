// Package interest reports whether any Subscription takes an event, and which event its publisher may have meant when none
// does. It is for those who show events to people; what is delivered is decided by the consumers' subjects alone.
//
// It is pure, and bounded whatever Subscriptions and publishers write: only names that are near in length are compared.
package interest
