"""The ray controller: from a RayServeGraph to a RayService."""
