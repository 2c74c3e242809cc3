package migrate

// modulesPart lets go of the resources by which Kyma's operators installed the modules.
func modulesPart(s *Survey) Part {
	part := Part{Name: "Modules"}
	for _, module := range s.Modules {
		switch {
		case module.Kind == kindNATS:
			part.differ(module.Object, "stays as it is: its servers keep the events, and go with it. Do not delete it while Rouse uses them")
		case module.Kind == kindServerless && s.Release.Operates:
			part.differ(module.Object, "is served by Rouse's operator from now on")
		case module.Finalizer:
			part.patch(module.Object, "loses Kyma's finalizer, which nobody releases any more, and can be deleted", "", module.released)
		}
	}
	return part
}

// usersPart says where the things are now that Kyma's users had: Secrets, rights, dashboards and alerts.
func usersPart(s *Survey) Part {
	part := Part{Name: "Secrets, rights, dashboards and alerts"}
	for _, relic := range s.Relics {
		part.differ(relic.Object, relic.Now)
	}
	return part
}
