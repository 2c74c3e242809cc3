// Package migrate moves a cluster from Kyma's serverless, eventing and API gateway modules to Rouse in place, and back.
//
// It reads the whole cluster with the user's own rights (Read), decides what is to be done now, what waits for what, what somebody has to do
// first and what will differ (Decide, which is pure), and does what can be done now. Apply and Back repeat that until nothing is left: what a
// cluster shows is all that they remember, but for the order in ConfigMap rouse-migration, by which the controller moves consumers in NATS.
//
// It guarantees:
//
//   - Nothing is changed while a controller of Kyma's runs that would undo it.
//   - An object of Kyma's goes after that of Rouse serves, and only the object with the UID that was looked at.
//   - Each change can be repeated: a move that ended at any point continues with the next Apply.
//   - Nothing is deleted that a user has made, and no content of a Secret is kept or shown.
package migrate
