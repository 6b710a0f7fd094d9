"""A client of the bench whose calls are made by a scripted model in a framework."""

import json

import bench
import scripted_model

MODELS = scripted_model.start()
# Members that a request has for an image, in the formats of the models.
IMAGES = ['"image_url"', '"input_image"', '"type": "image"', '"inlineData"', '"inline_data"']


class Framework:
    def __init__(self, converse):
        # Lets the framework answer a message of the user.
        self.converse = converse

    async def _run(self, calls):
        MODELS.model = scripted_model.Model([calls] if calls else [], "done")
        await self.converse("Use the tools.")
        return MODELS.model

    async def names(self):
        return (await self._run([])).names

    async def call(self, tool, arguments, on_progress=None):
        return (await self.call_all([(tool, arguments)]))[0]

    async def call_all(self, calls):
        model = await self._run(calls)
        assert len(model.texts) == len(calls), f"the model is told of {len(model.texts)} results"
        has_image = any(member in json.dumps(model.request) for member in IMAGES)
        return [bench.Told(text, False, self._kinds(text, has_image), "text for the model") for text in model.texts]

    @staticmethod
    def _kinds(text, has_image):
        return ("text", "image") if text and has_image else ("image",) if has_image else ("left out",)
