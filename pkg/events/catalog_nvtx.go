package events

// nvtxRows are the calls of NVTX (libnvToolsExt). Each keeps what it names, or ends,
// and the domain; the tag is the kind of the name, nvtxMessageType_t: 1 a string, 2 a
// wide one, 3 the handle of one that was registered.
var nvtxRows = []Row{
	{Op: 0x0701, Name: "nvtxRangePushA", Lib: LibNVTX, Class: ClassRange,
		Params: "message", Keep: []string{"name:message"}, Tag: "=1", EntryOnly: true},
	{Op: 0x0702, Name: "nvtxRangePushW", Lib: LibNVTX, Class: ClassRange,
		Params: "message", Keep: []string{"name:message"}, Tag: "=2", EntryOnly: true},
	{Op: 0x0703, Name: "nvtxRangePushEx", Lib: LibNVTX, Class: ClassRange,
		Params: "eventAttrib", Keep: []string{"name:eventAttrib+40"}, Tag: "eventAttrib+32:int", EntryOnly: true},
	{Op: 0x0704, Name: "nvtxRangePop", Lib: LibNVTX, Class: ClassRange, EntryOnly: true},
	{Op: 0x0705, Name: "nvtxRangeStartA", Lib: LibNVTX, Class: ClassRange,
		Params: "message", Keep: []string{"name:message"}, Tag: "=1"},
	{Op: 0x0706, Name: "nvtxRangeStartW", Lib: LibNVTX, Class: ClassRange,
		Params: "message", Keep: []string{"name:message"}, Tag: "=2"},
	{Op: 0x0707, Name: "nvtxRangeStartEx", Lib: LibNVTX, Class: ClassRange,
		Params: "eventAttrib", Keep: []string{"name:eventAttrib+40"}, Tag: "eventAttrib+32:int"},
	{Op: 0x0708, Name: "nvtxRangeEnd", Lib: LibNVTX, Class: ClassRange,
		Params: "id", Keep: []string{"id"}, EntryOnly: true},
	{Op: 0x0709, Name: "nvtxDomainRangePushEx", Lib: LibNVTX, Class: ClassRange,
		Params: "domain, eventAttrib", Keep: []string{"name:eventAttrib+40", "domain"}, Tag: "eventAttrib+32:int", EntryOnly: true},
	{Op: 0x070a, Name: "nvtxDomainRangePop", Lib: LibNVTX, Class: ClassRange,
		Params: "domain", Keep: []string{"=0", "domain"}, EntryOnly: true},
	{Op: 0x070b, Name: "nvtxDomainRangeStartEx", Lib: LibNVTX, Class: ClassRange,
		Params: "domain, eventAttrib", Keep: []string{"name:eventAttrib+40", "domain"}, Tag: "eventAttrib+32:int"},
	{Op: 0x070c, Name: "nvtxDomainRangeEnd", Lib: LibNVTX, Class: ClassRange,
		Params: "domain, id", Keep: []string{"id", "domain"}, EntryOnly: true},
}
